import { defineConfig } from '@playwright/test';
import tests from './playwright.config';

// The tests' browser takes the pictures of the documentation (scripts/page --pictures).
export default defineConfig({ ...tests, testDir: 'pictures', workers: 1, outputDir: '../target/page-pictures' });
