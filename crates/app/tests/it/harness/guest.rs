//! A machine of its own, emulated: one of Debian's kernels, a script as its only process, and the
//! programs that the script asks for. It has no disk and no network; what it says comes over a
//! serial line, and all that was in it is gone when it ends.
//!
//! `cargo xtask setup` unpacks the emulator and the kernel into `target/guest`. The processor is
//! emulated as well: not every machine that shows a `/dev/kvm` can run a guest on it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Scratch;
use super::process::{finish, run};
use super::storage::text;

/// What the guest is made of, on this machine.
pub(crate) struct Guest {
    folder: PathBuf,
}

impl Guest {
    /// What is there to boot.
    ///
    /// # Errors
    /// Why there is nothing.
    pub(crate) fn find() -> Result<Self, String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/guest");
        match folder.canonicalize() {
            Ok(folder) => Ok(Self { folder }),
            Err(_) => Err("there is no guest; `cargo xtask setup` would unpack one".to_owned()),
        }
    }

    /// Boots it with these programs in `/bin` and these modules of its kernel in `/modules`, runs
    /// the script, and gives what was said until the guest was switched off.
    pub(crate) fn run(
        &self,
        scratch: &Scratch,
        script: &str,
        programs: &[&str],
        modules: &[&str],
        patience: Duration,
    ) -> String {
        let root = scratch.join("root");
        for folder in ["bin", "dev", "modules", "proc", "sys", "tmp"] {
            std::fs::create_dir_all(root.join(folder)).expect("a folder in scratch");
        }
        let busybox = self.folder.join("bin/busybox");
        copy(&busybox, &root.join("bin/busybox"));
        for program in programs {
            put_program(scratch, &root, program);
        }
        let kernel = self.folder.join("lib/modules");
        for name in modules {
            let file = find(&kernel, &format!("{name}.ko"));
            copy(&file, &root.join(format!("modules/{name}.ko")));
        }
        std::fs::write(root.join("init"), script).expect("a script in scratch");
        run(&root, "chmod", &["755", "init"]);
        let pack = "find . | \"$0\" cpio -o -H newc > ../root.cpio";
        run(&root, "sh", &["-c", pack, &text(&busybox)]);
        self.boot(scratch, patience)
    }

    fn boot(&self, scratch: &Scratch, patience: Duration) -> String {
        let inside = |path: &str| text(&self.folder.join(path));
        let own = self.folder.join("usr/bin/qemu-system-x86_64");
        // One that is installed finds its parts by itself.
        let emulator = if own.exists() { text(&own) } else { "qemu-system-x86_64".to_owned() };
        let libraries = inside("usr/lib/x86_64-linux-gnu");
        let libraries = format!("{libraries}:{}", inside("lib/x86_64-linux-gnu"));
        let words = [
            format!("LD_LIBRARY_PATH={libraries}"),
            format!("QEMU_MODULE_DIR={}", inside("usr/lib/x86_64-linux-gnu/qemu")),
            emulator,
            format!("-L {} -L {}", inside("usr/share/qemu"), inside("usr/share/seabios")),
            "-accel tcg -cpu max -m 768 -nodefaults -no-user-config -no-reboot".to_owned(),
            "-display none -serial stdio".to_owned(),
            format!("-kernel {}", text(&find(&self.folder.join("boot"), "vmlinuz"))),
            format!("-initrd {}", text(&scratch.join("root.cpio"))),
        ];
        let words = words.join(" ");
        let mut words: Vec<&str> = words.split(' ').collect();
        words.extend(["-append", "console=ttyS0 panic=-1 quiet"]);
        finish(scratch.path(), "env", &words, patience).1
    }
}

/// A program, with the libraries that it wants, where it wants them. What is for debuggers stays
/// behind: the guest has it all in memory.
fn put_program(scratch: &Scratch, root: &Path, program: &str) {
    let path = run(scratch.path(), "sh", &["-c", "command -v \"$0\"", program]);
    let (path, name) = (path.trim(), Path::new(program).file_name().expect("a program's name"));
    run(scratch.path(), "strip", &["-o", &text(&root.join("bin").join(name)), path]);
    let listed = run(scratch.path(), "ldd", &[path]);
    let libraries: BTreeSet<&str> =
        listed.split_whitespace().filter(|word| word.starts_with('/')).collect();
    for library in libraries {
        let inside = root.join(library.trim_start_matches('/'));
        let folder = inside.parent().expect("it is a file in some folder");
        std::fs::create_dir_all(folder).expect("a folder in scratch");
        copy(Path::new(library), &inside);
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::copy(from, to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
}

/// The file below a folder whose name begins like this.
fn find(folder: &Path, name: &str) -> PathBuf {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).expect("the guest was unpacked whole");
        for entry in entries {
            let path = entry.expect("the guest was unpacked whole").path();
            let is_it = path.file_name().is_some_and(|it| it.to_string_lossy().starts_with(name));
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else if is_it {
                return path;
            }
        }
    }
    panic!("no {name} below {}", folder.display());
}
