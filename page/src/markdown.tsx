// Markdown as elements, never as HTML: text of a model can make nothing but text, lists, code and plain links.
import { Component, type ComponentChildren, type VNode } from "preact";

const DEEPEST = 8; // quotes in quotes, emphasis in emphasis: what is deeper is text
const LONGEST = 5_000; // characters of a paragraph that are looked through for emphasis and links

export function Markdown({ text }: { text: string }) {
  return <PlainIfBroken text={text}><Prose text={text} /></PlainIfBroken>;
}

function Prose({ text }: { text: string }) {
  return <div class="prose">{blocks(text)}</div>;
}

/** Whatever a text does to what draws it, the text itself is shown. */
export class PlainIfBroken extends Component<{ text: string; children: ComponentChildren }, { broken: string | null }> {
  override state = { broken: null as string | null };

  override componentDidCatch(): void {
    this.setState({ broken: this.props.text });
  }

  override render() {
    return this.state.broken === this.props.text ? <p class="stream">{this.props.text}</p> : this.props.children;
  }
}

export function blocks(text: string, depth = 0): VNode[] {
  const lines = text.replace(/\r\n?/g, "\n").split("\n");
  const out: VNode[] = [];
  let i = 0;
  while (i < lines.length) {
    const line = lines[i]!;
    const fence = /^(```+|~~~+)\s*([\w+-]*)/.exec(line);
    const heading = /^(#{1,6})\s+(.*)$/.exec(line);
    if (fence) {
      const end = lines.findIndex((l, at) => at > i && l.startsWith(fence[1]!));
      const to = end < 0 ? lines.length : end;
      out.push(<pre tabIndex={0}><code>{lines.slice(i + 1, to).join("\n")}</code></pre>);
      i = to + 1;
    } else if (heading) {
      out.push(<p class="heading" data-level={heading[1]!.length}>{inline(heading[2]!)}</p>);
      i++;
    } else if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) {
      out.push(<hr />);
      i++;
    } else if (/^\s*([-*+]|\d+[.)])\s+/.test(line)) {
      const from = i;
      while (i < lines.length && (/^\s*([-*+]|\d+[.)])\s+/.test(lines[i]!) || /^\s{2,}\S/.test(lines[i]!))) i++;
      out.push(list(lines.slice(from, i)));
    } else if (/^\s*>/.test(line)) {
      const from = i;
      while (i < lines.length && /^\s*>/.test(lines[i]!)) i++;
      const quoted = lines.slice(from, i);
      if (depth < DEEPEST) out.push(<blockquote>{blocks(quoted.map((l) => l.replace(/^\s*>\s?/, "")).join("\n"), depth + 1)}</blockquote>);
      else out.push(<p>{quoted.join("\n")}</p>);
    } else if (!line.trim()) {
      i++;
    } else {
      const from = i++;
      while (i < lines.length && lines[i]!.trim() && !/^(\s*([-*+]|\d+[.)])\s+|#{1,6}\s|```|~~~|\s*>)/.test(lines[i]!)) i++;
      out.push(<p>{inline(lines.slice(from, i).join("\n"))}</p>);
    }
  }
  return out;
}

function list(lines: string[]): VNode {
  const items: string[] = [];
  for (const line of lines) {
    const item = /^\s*(?:[-*+]|\d+[.)])\s+(.*)$/.exec(line);
    if (item) items.push(item[1]!);
    else items[items.length - 1] += ` ${line.trim()}`;
  }
  const inside = items.map((item) => <li>{inline(item)}</li>);
  return /^\s*\d/.test(lines[0]!) ? <ol>{inside}</ol> : <ul>{inside}</ul>;
}

const INLINE = /(`+)([^`]|[^`].*?[^`])\1(?!`)|\*\*(?=\S)(.+?)\*\*|(?<![\w*])[*_](?=\S)([^*_]+?)[*_](?![\w*])|\[([^\]]+)\]\((https?:\/\/[^\s)]+)\)|(https?:\/\/[^\s<>()]+[^\s<>().,;:!?])/gs;

export function inline(text: string, depth = 0): ComponentChildren[] {
  if (depth > DEEPEST || text.length > LONGEST) return [text];
  const out: ComponentChildren[] = [];
  let at = 0;
  for (const m of text.matchAll(INLINE)) {
    if (m.index > at) out.push(text.slice(at, m.index));
    if (m[1]) out.push(<code>{m[2]}</code>);
    else if (m[3]) out.push(<strong>{inline(m[3], depth + 1)}</strong>);
    else if (m[4]) out.push(<em>{inline(m[4], depth + 1)}</em>);
    else if (m[5]) out.push(link(m[6]!, m[5]));
    else out.push(link(m[7]!, m[7]!));
    at = m.index + m[0].length;
  }
  if (at < text.length) out.push(text.slice(at));
  return out;
}

function link(to: string, text: string): VNode {
  return <a href={to} target="_blank" rel="noopener noreferrer nofollow">{text}</a>;
}
