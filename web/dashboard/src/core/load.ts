/** Data of a page: loaded when it is shown, again when what it depends on changes. */

import { useCallback, useEffect, useState } from "preact/hooks";

export interface Loaded<T> {
  value?: T;
  error?: unknown;
  loading: boolean;
  reload: () => void;
}

export function useLoad<T>(
  load: (signal: AbortSignal) => Promise<T>,
  on: readonly unknown[],
  everyMs = 0,
): Loaded<T> {
  const [state, setState] = useState<{ value?: T; error?: unknown; loading: boolean }>({ loading: true });
  const [turn, setTurn] = useState(0);
  const reload = useCallback(() => setTurn((n) => n + 1), []);
  useEffect(() => setState({ loading: true }), on);
  useEffect(() => {
    const control = new AbortController();
    load(control.signal).then(
      (value) => !control.signal.aborted && setState({ value, loading: false }),
      (error) => !control.signal.aborted && setState((before) => ({ ...before, error, loading: false })),
    );
    return () => control.abort();
  }, [turn, ...on]);
  useEffect(() => {
    if (everyMs === 0) return undefined;
    const timer = setInterval(() => document.visibilityState === "visible" && reload(), everyMs);
    return () => clearInterval(timer);
  }, [everyMs, ...on]);
  return { ...state, reload };
}
