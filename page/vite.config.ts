import { defineConfig } from "vite";

export default defineConfig({
  base: "./",
  build: {
    outDir: process.env["STANDFAST_PAGE_OUT"] ?? "../src/standfast/server/page",
    emptyOutDir: true,
    target: "es2023",
    cssTarget: ["chrome123", "firefox120", "safari17.5"], // those that know light-dark()
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    rollupOptions: {
      input: { page: "index.html", client: "src/client.ts", bar: "src/bar.ts" },
      preserveEntrySignatures: "exports-only",
      output: {
        entryFileNames: (chunk) => (chunk.name === "page" ? "assets/page-[hash].js" : "[name].js"),
        chunkFileNames: "assets/[name]-[hash].js",
        assetFileNames: "assets/[name]-[hash][extname]",
      },
    },
  },
  test: { include: ["test/**/*.test.ts", "test/**/*.test.tsx"], environment: "node" },
} as Parameters<typeof defineConfig>[0]);
