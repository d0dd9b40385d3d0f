// Keys: which do what, when they count, and how they are changed.
export type Action = "pause" | "redirect" | "cancel" | "help";
export type Keys = Record<Action, string>;

export const DEFAULT_KEYS: Keys = { pause: "p", redirect: "r", cancel: "x", help: "?" };
export const ACTION_WORDS: Record<Action, string> = { pause: "Pause or resume", redirect: "Redirect", cancel: "Cancel (press twice)", help: "Show the keys" };
export const TWICE = 1500; // ms between the two presses that cancel

export interface Pressed {
  key: string;
  ctrlKey: boolean;
  altKey: boolean;
  metaKey: boolean;
  isComposing?: boolean;
  repeat?: boolean; // the key is held down
}

/** What a key press asks for; null for keys that are none of ours, held down, or meant for a field. */
export function actionOf(press: Pressed, keys: Keys, inField: boolean): Action | null {
  if (inField || press.ctrlKey || press.altKey || press.metaKey || press.isComposing || press.repeat) return null;
  const key = press.key.length === 1 ? press.key.toLowerCase() : press.key;
  return (Object.keys(keys) as Action[]).find((a) => keys[a] !== "" && keys[a].toLowerCase() === key) ?? null;
}

/** Is this where people type? Looks through the custom element into its shadow. */
export function isField(path: readonly EventTarget[]): boolean {
  const first = path[0] as Partial<HTMLElement> | undefined;
  const name = first?.tagName ?? "";
  return name === "INPUT" || name === "TEXTAREA" || name === "SELECT" || first?.isContentEditable === true;
}

/** The key that somebody means who types into a field that held another: the last character that came; none if it is emptied. */
export function keyOf(value: string, data: string | null): string {
  return [...(data ?? value).trim()].at(-1) ?? "";
}

/** Give an action another key; the action that had it takes the old one. Empty turns it off. */
export function rekey(keys: Keys, action: Action, key: string): Keys {
  const next = { ...keys, [action]: key };
  for (const other of Object.keys(keys) as Action[]) {
    if (other !== action && key !== "" && keys[other].toLowerCase() === key.toLowerCase()) next[other] = keys[action];
  }
  return next;
}

/** Two presses within a moment; the first one arms. Each run has its own: it is never armed for another. */
export class Twice {
  private first = 0;

  disarm(): void {
    this.first = 0;
  }

  press(now: number): boolean {
    const second = this.first > 0 && now - this.first <= TWICE;
    this.first = second ? 0 : now;
    return second;
  }
}
