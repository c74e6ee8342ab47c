/** Requests are selected by the bars of the histogram of durations. */
import { accessible, expect, settled, test } from './served';

const NAME = /Durations of the dots/;

for (const colorScheme of ['light', 'dark'] as const) {
  test(`bars select durations, by mouse and by keyboard, ${colorScheme}`, async ({ page, demo }) => {
    await page.emulateMedia({ colorScheme });
    await page.goto(demo);
    await settled(page);
    const plot = page.getByRole('application', { name: NAME });
    await plot.scrollIntoViewIfNeeded();
    const box = (await plot.boundingBox())!;
    await page.mouse.move(box.x + box.width * 0.5, box.y + 40);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.7, box.y + 40, { steps: 4 });
    await page.mouse.up();
    await expect(page).toHaveURL(/longer=\d+ns&shorter=\d+ns/);
    await expect(page).not.toHaveURL(/from=/);
    const [longer, shorter] = ['longer', 'shorter'].map((name) => parseInt(new URL(page.url()).searchParams.get(name)!));
    expect(longer).toBeLessThan(shorter!);
    await expect(page.locator('#durations-are')).toContainText(/dots? from .* to below/);
    await settled(page);
    await accessible(page);
    // a link leads to the same, and Why follows
    const address = page.url();
    await page.goto(address);
    await expect(page.locator('#durations-are')).toContainText(/to below/);
    await page.getByRole('link', { name: 'What do the selected ones spend more on?' }).click();
    await expect(page.locator('code', { hasText: 'wakepath why' })).toContainText(`--longer-than=${longer}ns`);
    await page.goBack();
    await expect(page).toHaveURL(address);
    await page.getByRole('button', { name: 'Clear' }).click();
    await expect(page).not.toHaveURL(/longer/);
    // by keyboard: the two last bars, open above
    await plot.focus();
    await page.keyboard.press('End');
    await page.keyboard.press('Shift+ArrowLeft');
    await page.keyboard.press('Enter');
    await expect(page).toHaveURL(/longer=\d+ns/);
    await expect(page).not.toHaveURL(/shorter=/);
    await page.goBack();
    await expect(page).not.toHaveURL(/longer/);
  });
}
