/** What every drawing on a canvas needs: the page's colours, and its pixels. */

const DARK = matchMedia('(prefers-color-scheme: dark)');

/** Light or dark, as it is now. Read it in the effect that draws, so that it is drawn anew when it changes. Call while a component is made. */
export function scheme(): { readonly dark: boolean } {
  let dark = $state(DARK.matches);
  $effect(() => {
    const change = () => (dark = DARK.matches);
    DARK.addEventListener('change', change);
    return () => DARK.removeEventListener('change', change);
  });
  return { get dark() { return dark; } };
}

/** A cleared canvas of so many pixels of the page, and what looks a colour of page.css up. */
export function cleared(canvas: HTMLCanvasElement | undefined, width: number, height: number): { to: CanvasRenderingContext2D; paint: (name: string) => string } | null {
  const to = canvas?.getContext('2d');
  if (!to || !canvas) return null;
  const style = getComputedStyle(canvas);
  const known = new Map<string, string>();
  const paint = (name: string) => {
    const found = known.get(name) ?? style.getPropertyValue(name).trim();
    known.set(name, found);
    return found;
  };
  const dense = devicePixelRatio || 1;
  canvas.width = Math.round(width * dense);
  canvas.height = Math.round(height * dense);
  to.setTransform(dense, 0, 0, dense, 0, 0);
  to.clearRect(0, 0, width, height);
  to.font = '12px system-ui, sans-serif';
  to.textBaseline = 'middle';
  return { to, paint };
}
