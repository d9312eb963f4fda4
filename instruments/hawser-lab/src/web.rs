//! nginx on a host of the lab: a server without Hawser.

use std::io;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};

use crate::measure::wait_for_port;
use crate::netns::NetNs;
use crate::process::Program;

/// Returns the folder of the files that a server with this folder serves.
pub(crate) fn root(folder: &Path) -> PathBuf {
    folder.join("www")
}

/// Starts nginx, which serves what is in [`root`] at all of `addresses`; `more` stands beside that
/// in its configuration.
pub(crate) fn start(
    host: &NetNs,
    folder: &Path,
    addresses: &[SocketAddrV4],
    more: &str,
) -> io::Result<Program> {
    std::fs::create_dir_all(root(folder))?;
    std::fs::create_dir_all(folder.join("temp"))?;
    let listen = addresses.iter().map(|at| format!("listen {at}; "));
    let listen: String = listen.collect();
    let configuration = format!(
        "daemon off; pid nginx.pid; user root; worker_processes 1;
events {{ worker_connections 4096; }}
http {{
  access_log off; sendfile on;
  client_body_temp_path temp; proxy_temp_path temp; fastcgi_temp_path temp;
  uwsgi_temp_path temp; scgi_temp_path temp;
  server {{ {listen} root www; {more} }}
}}
"
    );
    std::fs::write(folder.join("nginx.conf"), configuration)?;
    let mut command = host.command("nginx");
    command.arg("-p").arg(folder);
    command.args(["-c", "nginx.conf", "-e", "error.log"]);
    let mut web = Program::start("nginx", command, &folder.join("nginx.log"))?;
    if let Some(first) = addresses.first() {
        wait_for_port(&mut web, *first, host)?;
    }
    Ok(web)
}
