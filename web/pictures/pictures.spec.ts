/** Takes the pictures that the documentation shows, from a recording of the demo stack. */
import { stat } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { Page } from '@playwright/test';
import { expect, settled, test } from '../tests/served';

/** Most bytes of a picture: they are kept with the sources. */
const BYTES_MAX = 250_000;
const VOTE = `kind=${encodeURIComponent('GET /vote/{n}')}`;

interface Picture {
  name: string;
  view: string;
  /** Of the window, where it is another one than the tests'. */
  height?: number;
  prepare?: (page: Page) => Promise<void>;
}

const PICTURES: Picture[] = [
  // all that was found
  { name: 'overview', view: '', height: 920 },
  {
    name: 'request',
    view: `?view=request&request=slowest&${VOTE}`,
    prepare: async (page) => {
      const call = page.getByRole('option', { name: /gunicorn/ }).first();
      await call.hover();
      await expect(call).toHaveAttribute('aria-selected', 'true');
    },
  },
  {
    name: 'tasks',
    view: '?view=tasks&since=%2B900000000ns&until=%2B1100000000ns',
    height: 920,
    prepare: async (page) => {
      await page.getByRole('application', { name: /Tasks over time/ }).focus();
      await page.keyboard.press('ArrowDown');
      await expect(page.locator('code', { hasText: '--path' })).toBeVisible();
    },
  },
];

for (const { name, view, height, prepare } of PICTURES) {
  test(name, async ({ page, demo }) => {
    if (height) await page.setViewportSize({ width: 1280, height });
    await page.goto(demo + view);
    await settled(page);
    await prepare?.(page);
    await settled(page);
    const path = fileURLToPath(new URL(`../../docs/pictures/${name}.png`, import.meta.url));
    await page.screenshot({ path });
    expect((await stat(path)).size).toBeLessThanOrEqual(BYTES_MAX);
  });
}
