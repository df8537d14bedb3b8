//! Which process of this machine listens at an address.

use std::net::SocketAddr;

/// The process that listens at `address`, where that can be found out: on this machine, and ours to
/// look into.
pub(crate) fn of_listener(address: SocketAddr) -> Option<u32> {
    if !address.ip().is_loopback() {
        return None;
    }
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let mut tables = tables.iter().filter_map(|path| std::fs::read_to_string(path).ok());
    let inode = tables.find_map(|table| inode(&table, address.port()))?;
    let link = format!("socket:[{inode}]");
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| holds(*pid, &link))
}

/// The inode of the socket that listens at a port, from the kernel's table.
fn inode(table: &str, port: u16) -> Option<u64> {
    const LISTENS: &str = "0A";
    let here = format!(":{port:04X}");
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<_> = line.split_ascii_whitespace().collect();
        let is_it = fields.get(1)?.ends_with(&here) && *fields.get(3)? == LISTENS;
        if is_it { fields.get(9)?.parse().ok() } else { None }
    })
}

/// Whether a process has something open that leads to `link`.
fn holds(pid: u32, link: &str) -> bool {
    let Ok(files) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let mut targets = files.flatten().filter_map(|file| std::fs::read_link(file.path()).ok());
    targets.any(|target| target.as_os_str() == link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_listens_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(of_listener(listener.local_addr().unwrap()), Some(std::process::id()));
        let address = listener.local_addr().unwrap();
        drop(listener);
        assert_eq!(of_listener(address), None);
    }
}
