//! What this node is called.

use std::path::Path;

use anyhow::Context;

/// The name that the configuration gives; else the one that this data directory was given when
/// it was first used, so that a restart is the same node.
pub(super) fn node_id(configured: Option<&str>, dir: &Path) -> anyhow::Result<String> {
    if let Some(name) = configured {
        return Ok(name.to_owned());
    }
    let path = dir.join("node-id");
    let at = || path.display().to_string();
    match std::fs::read_to_string(&path) {
        Ok(name) if !name.trim().is_empty() => return Ok(name.trim().to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(at),
    }
    let mut random = [0; 4];
    getrandom::fill(&mut random)?;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let host: String = host.chars().filter(|c| !c.is_control() && *c != ' ').take(64).collect();
    let name = format!("{host}-{:08x}", u32::from_le_bytes(random));
    std::fs::write(&path, format!("{name}\n")).with_context(at)?;
    Ok(name)
}
