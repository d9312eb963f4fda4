//! A gateway whose pool overlaps with the network of the hosts.

use hawser_skip::name_server::serve_names_if_asked;
use hawser_skip::namespace::{in_namespace, ip};

use super::scripts::{ALL, ALL_SAY};
use super::stage::Router;

#[test]
fn a_network_that_hosts_are_in_already_is_left_out_and_told() {
    let test = "router::overlap::a_network_that_hosts_are_in_already_is_left_out_and_told";
    in_namespace(test, || {
        serve_names_if_asked();
        let Some(router) = Router::new(test, 3) else {
            return;
        };
        // All that the gateway grants of IPv4 to hosts is in here.
        ip("address add 10.83.128.1/17 dev lan");
        let gateway = router.net.serve();
        let up = router.up(&["--gateway", &router.place().invite()]);
        let log = || format!("{}\n{}", up.log(), gateway.log());
        let told = "which overlaps with their own network 10.83.128.0/17;";
        assert_eq!(up.log().matches(told).count(), 1, "{}", log());
        for said in router.at_all(ALL) {
            assert_eq!(said, ALL_SAY, "{}", log());
        }
        let shared = router.in_tunnel("11.0.0.2:7");
        assert_eq!(shared.len(), 1, "{shared:?}\n{}", log());
        let own = router.in_tunnel("[2a00:11::2]:7");
        assert_eq!(own.len(), 3, "{own:?}\n{}", log());
        up.end();
    });
}
