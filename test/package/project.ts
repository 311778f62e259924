import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { checkout } from '../support/files.js';

/** The package as npm would publish it, and empty projects in which it is installed. All of it goes with {@link Packed.remove}. */
export type Packed = {
  readonly tarball: string;
  /** Its files, unpacked. */
  readonly folder: string;
  /** Paths in the package. */
  readonly files: readonly string[];
  /** A project with the package, its dependencies and nothing else; resolves to its folder. Without the network. */
  project(name: string, packageJson: object, files: Record<string, string>): string;
  remove(): void;
};

/** Packs what `dist` holds now: other test files run from it, so it must not be built again here. */
export function pack(): Packed {
  const top = mkdtempSync(join(tmpdir(), 'fuseline-package-'));
  const said = execFileSync('npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', top], {
    cwd: checkout,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const [about] = JSON.parse(said) as [{ filename: string; files: { path: string }[] }];
  const tarball = join(top, about.filename);
  const unpack = (into: string) => {
    mkdirSync(into, { recursive: true });
    execFileSync('tar', ['-xzf', tarball, '-C', into]);
    return join(into, 'package');
  };
  return {
    tarball,
    folder: unpack(join(top, 'unpacked')),
    files: about.files.map(({ path }) => path),
    project(name, packageJson, files) {
      const folder = join(top, name);
      const modules = join(folder, 'node_modules');
      renameSync(unpack(modules), join(modules, 'fuseline'));
      link(modules);
      for (const [path, text] of Object.entries({ 'package.json': JSON.stringify(packageJson), ...files }))
        writeFileSync(join(folder, path), text);
      return folder;
    },
    remove: () => rmSync(top, { recursive: true, force: true }),
  };
}

/** What npm would install beside the package, and the types of Node. A dependency that is not declared is not found. */
function link(modules: string): void {
  const { dependencies } = JSON.parse(readFileSync(`${checkout}package.json`, 'utf8')) as {
    dependencies: Record<string, string>;
  };
  mkdirSync(join(modules, '@types'));
  for (const name of [...Object.keys(dependencies), '@types/node'])
    symlinkSync(join(checkout, 'node_modules', name), join(modules, name), 'dir');
}
