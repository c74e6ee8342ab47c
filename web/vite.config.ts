import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

// The page's files go where the binary takes them in (crates/ui/page). No inline script or style: the server forbids both.
export default defineConfig({
  plugins: [svelte()],
  base: './',
  build: {
    outDir: '../crates/ui/page',
    emptyOutDir: false,
    assetsDir: '.',
    assetsInlineLimit: 0,
    modulePreload: false,
    target: 'es2022',
    rolldownOptions: {
      output: { entryFileNames: 'page.js', assetFileNames: 'page[extname]', codeSplitting: false },
    },
  },
});
