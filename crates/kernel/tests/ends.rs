//! XCP and RCP in the running kernel: connections between network namespaces whose packets carry the congestion header.
//!
//! Where the machine does not allow namespaces or BPF controllers, each test says so and passes.
#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

#[allow(dead_code, reason = "other tests use all of it")]
mod path;

use std::sync::Arc;

use headway_kernel::{Attached, Controller, EndCounters, EndOptions, Loaded, Loader};
use path::{Host, Path, V4, V6, close, transfer};

const MEGABYTE: usize = 1 << 20;

/// A controller that is loaded, its programs at interfaces, and its name.
struct Ends {
    loaded: Arc<Loaded>,
    name: String,
    _attached: Vec<Attached>,
}

impl Ends {
    fn new(controller: Controller, options: EndOptions, hosts: &[&Host], what: &str) -> Ends {
        let name = format!("t{}_{what}", std::process::id());
        let loader = Loader::new(controller).name(&name).end_options(options);
        let loaded = Arc::new(loader.load().unwrap_or_else(|error| panic!("{error}: {error:?}")));
        let attach = |host: &&Host| {
            let loaded = loaded.clone();
            host.run(move || loaded.attach("eth0")).unwrap()
        };
        let attached = hosts.iter().map(attach).collect();
        Ends { loaded, name, _attached: attached }
    }

    fn counters(&self) -> EndCounters {
        self.loaded.end_counters().unwrap()
    }
}

#[test]
fn data_passes_between_two_ends_and_packets_carry_the_header() {
    let Some(path) = Path::new() else { return };
    for controller in [Controller::Xcp, Controller::Rcp] {
        let ends =
            Ends::new(controller, EndOptions::default(), &[&path.client, &path.server], controller.command());
        for server in [V4[1], V6[1]] {
            let (socket, mut peer) = path.connect_to(server, &ends.name, "reno");
            transfer(&socket, &mut peer, MEGABYTE);
            close(&socket, peer);
            println!("{controller:?} {server} {:?}", ends.counters());
        }
    }
}
