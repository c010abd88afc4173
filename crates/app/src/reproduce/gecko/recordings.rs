//! Real traces, where there are any.
//!
//! They are not ours to ship. The variable below names a folder that has them, as they were
//! published, packed or not; without it there are no rows about them, and that is said.

use std::path::{Path, PathBuf};

use evenkeel_trace::Record;

use crate::terminal;
use crate::trace::input::{ReadOptions, TraceReader};

/// The variable that names the folder.
const FOLDER_VARIABLE: &str = "EVENKEEL_TRACES";

/// All of these recordings, or nothing if one is not there. `rows` says what will be missing.
pub(super) fn load(rows: &str, names: &[String]) -> anyhow::Result<Option<Vec<Vec<Record>>>> {
    let Some(folder) = std::env::var_os(FOLDER_VARIABLE).map(PathBuf::from) else {
        terminal::say(&format!("no {rows}: {FOLDER_VARIABLE} names no folder with recordings"));
        return Ok(None);
    };
    let paths: Vec<PathBuf> = names.iter().map(|name| folder.join(name)).collect();
    if let Some(missing) = paths.iter().find(|path| !path.is_file()) {
        terminal::say(&format!("no {rows}: there is no {}", missing.display()));
        return Ok(None);
    }
    paths.iter().map(|path| read(path)).collect::<anyhow::Result<_>>().map(Some)
}

fn read(path: &Path) -> anyhow::Result<Vec<Record>> {
    let mut reader = TraceReader::open(path, &ReadOptions::default())?;
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while reader.next_batch(&mut batch)? {
        all.append(&mut batch);
    }
    Ok(all)
}
