//! The only clock and the only sockets: links, binding, TLS, channels and the tokio driver.

pub mod asker;
pub mod association;
pub mod bind;
pub mod client;
pub mod clock;
pub mod foreign_source;
pub mod gateway;
pub mod guard;
pub mod host_port;
pub mod identity;
pub mod invite;
pub mod kill_switch;
pub mod lan;
pub mod links;
mod local_pair;
pub mod names;
pub mod network_manager;
pub mod packet_exit;
mod port_on_links;
pub mod port_rules;
mod read_memory;
pub mod session;
pub mod store;
pub mod stream;
pub mod tcp_info;
pub mod thread_memory;
pub mod ticks;
pub mod tls;
pub mod tun;
pub mod unix_time;
pub mod voucher;

mod bus;
mod congestion;
mod driver;
mod files;
mod forwarding;
mod lock_order;
mod nft;
mod routing_rules;
mod sign_of_life;
mod sys;

pub use bus::BusError;
pub use files::FileError;
pub use local_pair::local_pair;
pub use nft::NftError;
