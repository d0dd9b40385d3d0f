// What people have begun to write, kept for each run until it is sent or given up: going to another run loses nothing.
export class Drafts<T> {
  private readonly kept = new Map<string, T>();

  of(run: string): T | undefined {
    return this.kept.get(run);
  }

  /** Keep it; nothing, or what is empty, is forgotten. */
  keep(run: string, draft: T | undefined | ""): void {
    if (draft === undefined || draft === "") this.kept.delete(run);
    else this.kept.set(run, draft);
  }
}
