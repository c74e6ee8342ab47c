import { defineConfig } from '@playwright/test';

// The distribution's browser, headless. As root it has no sandbox of its own; it opens nothing but our own page.
export default defineConfig({
  testDir: 'tests',
  outputDir: '../target/page-tests',
  fullyParallel: true,
  workers: 2,
  timeout: 120_000,
  forbidOnly: true,
  retries: 0,
  // a machine that is busy, and a binary that may not be optimised
  expect: { timeout: 30_000 },
  reporter: [['list']],
  use: {
    launchOptions: { executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] },
    viewport: { width: 1280, height: 800 },
    screenshot: 'only-on-failure',
  },
});
