/** A `wakepath ui` for each recording, and a page that must not complain. */
import AxeBuilder from '@axe-core/playwright';
import { test as base, expect, type Page } from '@playwright/test';
import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

export { expect };

export function given(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: run scripts/page --test`);
  return value;
}

/** Starts a server, in the folder PAGE_FROM where that is set; gives its address and what ends it. */
export async function serve(...folders: string[]): Promise<[string, () => void]> {
  const child = spawn(given('WAKEPATH'), ['ui', ...folders, '--bind', '127.0.0.1:0'], { cwd: process.env.PAGE_FROM, stdio: ['ignore', 'pipe', 'ignore'] });
  for await (const line of createInterface({ input: child.stdout })) return [line.trim(), () => child.kill('SIGTERM')];
  throw new Error(`wakepath ui ${folders.join(' ')} did not start`);
}

type Recordings = { demo: string; lttng: string; hostile: string; marks: string; two: string };

/** Chooses what the search box completes to a text: by keyboard, as it is the first. */
export async function choose(page: Page, text: string, choice: RegExp) {
  const box = page.getByRole('combobox', { name: 'Select requests' });
  await box.fill(text);
  const option = page.getByRole('listbox', { name: 'In the recording' }).getByRole('option', { name: choice }).first();
  await option.click();
}

/** Types what the search box is to select. */
export async function search(page: Page, text: string) {
  await page.getByRole('combobox', { name: 'Select requests' }).fill(text);
  await page.keyboard.press('Enter');
}

/** While the page is worked on: its files as they are in the folder PAGE_FILES, in place of those in the binary. */
async function fromDisk(page: Page, folder: string) {
  await page.route(/\/(page\.(js|css)|icon\.svg)?(\?.*)?$/, async (route) => {
    const name = new URL(route.request().url()).pathname.slice(1) || 'index.html';
    await route.fulfill({ response: await route.fetch(), body: await readFile(join(folder, name)) });
  });
}

export const test = base.extend<{ quiet: void }, Recordings>({
  demo: [async ({}, use) => run('PAGE_DEMO', use), { scope: 'worker' }],
  lttng: [
    async ({}, use) => {
      base.skip(!process.env.PAGE_LTTNG, 'WAKEPATH_DATA names no folder with lttng/django-vote.tar.gz');
      await run('PAGE_LTTNG', use);
    },
    { scope: 'worker' },
  ],
  marks: [async ({}, use) => run('PAGE_MARKS', use), { scope: 'worker' }],
  hostile: [async ({}, use) => run('PAGE_HOSTILE', use), { scope: 'worker' }],
  two: [
    async ({}, use) => {
      const [address, end] = await serve(given('PAGE_DEMO'), given('PAGE_HOSTILE'));
      await use(address);
      end();
    },
    { scope: 'worker' },
  ],
  // whatever a test does: no error on the console, no dialog, nothing from elsewhere
  quiet: [
    async ({ page }, use) => {
      const said: string[] = [];
      if (process.env.PAGE_FILES) await fromDisk(page, process.env.PAGE_FILES);
      page.on('console', (m) => m.type() === 'error' && !/status of 4(00|22)/.test(m.text()) && said.push(m.text()));
      page.on('pageerror', (e) => said.push(String(e)));
      page.on('dialog', (d) => (said.push(`dialog: ${d.message()}`), void d.dismiss()));
      page.on('request', (r) => {
        if (!/^(data:|http:\/\/127\.0\.0\.1:\d+\/)/.test(r.url())) said.push(`asked for ${r.url()}`);
      });
      await use();
      expect(said).toEqual([]);
    },
    { auto: true },
  ],
});

async function run(name: string, use: (address: string) => Promise<void>) {
  const [address, end] = await serve(given(name));
  await use(address);
  end();
}

/** Nothing that keeps people with a screen reader or a keyboard from using it. */
export async function accessible(page: Page) {
  const found = await new AxeBuilder({ page }).analyze();
  const serious = found.violations.filter((v) => v.impact === 'serious' || v.impact === 'critical');
  expect(serious.map((v) => `${v.id}: ${v.nodes.map((n) => n.target).join(', ')}`)).toEqual([]);
}

/** No wider than the window. */
export async function fits(page: Page) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  expect(wide).toBeLessThanOrEqual(0);
}

/** Until every answer has come: each that arrives moves what stands below it. */
export async function settled(page: Page) {
  await expect(page.getByRole('region', { name: 'Losses' })).not.toContainText('Reading');
  await expect(page.getByText(/^Reading /)).toHaveCount(0, { timeout: 60_000 });
}
