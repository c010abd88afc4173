//! CRUSH's part: `crushtool --test`, which places one number after the other and prints nothing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::{REPLICAS, Shape};
use crate::cpu;

/// A CRUSH map in a file.
pub(super) struct Crush {
    tool: PathBuf,
    map: PathBuf,
}

impl Crush {
    /// Makes a map: straw2 buckets, one rule that puts replicas on different hosts.
    pub(super) fn build(tool: PathBuf, folder: &Path, shape: Shape) -> Result<Self> {
        let map = folder.join(format!("crush-{}", shape.servers));
        let mut command = Command::new(&tool);
        command.args(["--build", "--num_osds", &shape.servers.to_string(), "-o"]).arg(&map);
        command.args(["host", "straw2", &shape.per_host.to_string()]);
        if let Some(per_rack) = shape.per_rack {
            command.args(["rack", "straw2", &per_rack.to_string()]);
        }
        command.args(["root", "straw2", "0"]);
        run(&mut command)?;
        Ok(Self { tool, map })
    }

    /// Nanoseconds of processor time for the servers of each of so many numbers, the tool's start
    /// included.
    pub(super) fn place(&self, count: u64) -> Result<f64> {
        let before = cpu::time_of_children()?;
        let mut command = Command::new(&self.tool);
        command.arg("-i").arg(&self.map).args(["--test", "--rule", "0"]);
        command.args(["--num-rep", &REPLICAS.to_string()]);
        command.args(["--min-x", "0", "--max-x", &(count - 1).to_string()]);
        run(&mut command)?;
        let taken = cpu::time_of_children()?.saturating_sub(before);
        Ok(taken.as_secs_f64() * 1e9 / count as f64)
    }
}

fn run(command: &mut Command) -> Result<()> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "crushtool ended with {}: {}", output.status, words.trim());
    Ok(())
}
