/**
 * When a view is painted, and how long zooming and panning take: for bench/page.
 *
 * usage: node paint.mjs PLAN   (JSON: chromium, rounds, pages: [{name, url, first, canvas, questions, keys}])
 *
 * In each round every page is opened once, in turns, by a browser context that has nothing of it. Prints for each page a list
 * of rounds: `content_ms` (something is painted, if only the page's frame), `first_ms` (something that is true of this recording
 * is: the text at `first`, where there is one, else the canvas), `paint_ms` (its canvas is, and all `questions` are answered), and for each key `ms`
 * until the new answer is drawn, `first_ms` until the first frame behind it, and the longest `gap_ms` between two frames.
 */
import { chromium } from '@playwright/test';

const MOST_MS = 600_000;
const plan = JSON.parse(process.argv[2]);

/** Within the page: the moments of all frames, and what waits for one. */
function watch() {
  window.frames_at = [];
  // a long reading is looked at often
  performance.setResourceTimingBufferSize(10_000);
  const frame = () => {
    window.frames_at.push(performance.now());
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}

/** Within the page: all questions are answered, and what shows it is there: the canvas has something on it, the element has text. */
function drawn([label, questions, since, element]) {
  if (element) {
    if (!document.querySelector(element)?.textContent.match(/[0-9]/)) return 0;
  } else {
    const canvas = [...document.querySelectorAll('canvas')].find((c) => (c.getAttribute('aria-label') ?? '').match(label));
    if (!canvas || canvas.width === 0) return 0;
    const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    if (!pixels.some((v) => v !== 0)) return 0;
  }
  const entries = performance.getEntriesByType('resource').filter((e) => e.startTime >= since);
  const ends = questions.map((q) => entries.filter((e) => e.name.includes(`/api/${q}?`)).at(-1)?.responseEnd ?? 0);
  if (ends.some((end) => end === 0)) return 0;
  // the second frame behind the answer shows it: the first parses and draws
  const behind = window.frames_at.filter((t) => t > Math.max(...ends));
  return behind[1] ?? 0;
}

async function opened(browser, page) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const tab = await context.newPage();
  try {
    await tab.addInitScript(watch);
    await tab.goto(page.url, { waitUntil: 'commit' });
    const until = async (what) => (await tab.waitForFunction(drawn, what, { timeout: MOST_MS, polling: 10 })).jsonValue();
    const early = page.first ? await until([page.canvas, [page.first.question], 0, page.first.element]) : null;
    const paint_ms = await until([page.canvas, page.questions, 0]);
    const first_ms = early ?? paint_ms;
    const content_ms = await tab.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null);
    const steps = [];
    for (const key of page.keys ?? []) {
      await tab.getByLabel(new RegExp(page.canvas)).first().focus();
      const since = await tab.evaluate(() => performance.now());
      await tab.keyboard.press(key);
      const done = await tab.waitForFunction(drawn, [page.canvas, page.questions, since], { timeout: MOST_MS, polling: 10 });
      const ms = (await done.jsonValue()) - since;
      const frames = await tab.evaluate((from) => window.frames_at.filter((t) => t >= from), since);
      const ends = [since, ...frames.filter((t) => t <= since + ms)];
      const gaps = ends.slice(1).map((t, i) => t - ends[i]);
      steps.push({ key, ms, first_ms: (frames[0] ?? since) - since, frames: frames.length, gap_ms: Math.max(...gaps) });
    }
    return { content_ms, first_ms, paint_ms, steps };
  } finally {
    await context.close();
  }
}

const browser = await chromium.launch({ executablePath: plan.chromium, args: ['--no-sandbox'] });
const found = Object.fromEntries(plan.pages.map((p) => [p.name, []]));
for (let round = 0; round < plan.rounds; round++) {
  for (let i = 0; i < plan.pages.length; i++) {
    const page = plan.pages[(i + round) % plan.pages.length];
    found[page.name].push(await opened(browser, page));
  }
}
await browser.close();
console.log(JSON.stringify(found));
