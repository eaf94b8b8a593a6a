//! Nodes, addresses and routes of a lab, computed from its links.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, Ipv6Addr};

use headway_units::Rate;

use crate::spec::Edge;
use crate::state::{Interface, Node};

/// Precedes the rate of a line, in bits per second, in the alias of its interface: a veth says nothing else
/// of it to programs that must know (`crates/net/src/frames/station.rs` reads it).
const LINE_ALIAS: &str = "headway-line=";

/// A node with what its kernel needs to know of the others.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) node: Node,
    /// The other end of each interface's link.
    neighbours: Vec<Interface>,
    /// The rate of the line behind each interface, if it has one.
    lines: Vec<Option<Rate>>,
    /// Subnets beyond the neighbours.
    routes: Vec<Route>,
}

/// A route to the subnets of a link, or to everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Route {
    /// `None` stands for all destinations.
    link: Option<usize>,
    /// The interface it leads to.
    interface: usize,
}

/// Returns the nodes of a lab in the order in which its links name them.
///
/// Every link has an IPv4 and an IPv6 subnet; every lab uses the same ones, since labs cannot see each other.
pub(crate) fn places(links: &[Edge]) -> Vec<Place> {
    let mut names: Vec<&str> = Vec::new();
    for name in links.iter().flat_map(|link| [&link.from, &link.to]) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names.iter().map(|name| place(name, links)).collect()
}

fn place(name: &str, links: &[Edge]) -> Place {
    let mut interfaces = Vec::new();
    let mut neighbours = Vec::new();
    let mut lines = Vec::new();
    for (number, link) in links.iter().enumerate().filter(|(_, link)| link.from == name || link.to == name) {
        let device = format!("eth{}", interfaces.len());
        let [from, to] = [0, 1].map(|end| interface(&device, number, link, end));
        let (own, other, side) =
            if link.from == name { (from, to, &link.path.forward) } else { (to, from, &link.path.reverse) };
        lines.push(side.line);
        interfaces.push(own);
        neighbours.push(other);
    }
    let main = &interfaces[0];
    let (v4, v6, mac) = (main.v4, main.v6, main.mac.clone());
    let node = Node { name: name.to_owned(), v4, v6, mac, interfaces };
    let routes = routes(&node, links);
    Place { node, neighbours, lines, routes }
}

fn interface(device: &str, number: usize, link: &Edge, end: u8) -> Interface {
    // A lab has at most 200 links.
    let (subnet, host) = (number as u8, end + 1);
    Interface {
        name: device.to_owned(),
        link: link.name.clone(),
        v4: Ipv4Addr::new(10, 77, subnet, host),
        v6: Ipv6Addr::new(0xfd77, 0, 0, u16::from(subnet), 0, 0, 0, u16::from(host)),
        // 02: locally administered address.
        mac: format!("02:00:00:{subnet:02x}:77:{host:02x}"),
    }
}

/// Returns the routes of a node. They lead along the fewest links to the nearer end of a subnet; among paths
/// of the same length, through the link that comes first.
fn routes(node: &Node, links: &[Edge]) -> Vec<Route> {
    if let [only] = &node.interfaces[..] {
        let others = links.iter().any(|link| link.name != only.link);
        return others.then_some(Route { link: None, interface: 0 }).into_iter().collect();
    }
    let reached = reached(node, links);
    let find = |name: &String| reached.iter().find(|(node, ..)| *node == name.as_str());
    let mut routes = Vec::new();
    for (number, link) in
        links.iter().enumerate().filter(|(_, link)| ![&link.from, &link.to].contains(&&node.name))
    {
        let nearer = [&link.from, &link.to].into_iter().filter_map(find).min_by_key(|(_, hops, _)| *hops);
        if let Some((_, _, interface)) = nearer {
            routes.push(Route { link: Some(number), interface: *interface });
        }
    }
    routes
}

/// Returns all nodes that can be reached from `node`, with the number of links in between and
/// the first interface.
fn reached<'a>(node: &'a Node, links: &'a [Edge]) -> Vec<(&'a str, usize, usize)> {
    let mut reached: Vec<(&str, usize, usize)> = vec![(&node.name, 0, 0)];
    let mut queue = VecDeque::from([(node.name.as_str(), 0, None)]);
    while let Some((at, hops, first)) = queue.pop_front() {
        for link in links {
            let next = match (link.from == at, link.to == at) {
                (true, _) => &link.to,
                (_, true) => &link.from,
                _ => continue,
            };
            if reached.iter().any(|(seen, ..)| seen == next) {
                continue;
            }
            let through = || node.interfaces.iter().position(|interface| interface.link == link.name);
            let Some(interface) = first.or_else(through) else { continue };
            reached.push((next, hops + 1, interface));
            queue.push_back((next, hops + 1, Some(interface)));
        }
    }
    reached
}

impl Place {
    /// Whether the node forwards packets.
    pub(crate) fn is_router(&self) -> bool {
        self.node.interfaces.len() > 1
    }

    /// Returns the commands for `ip -batch` that set up the node's interfaces and routes.
    pub(crate) fn commands(&self, mtu: u32, ipv6: bool) -> String {
        let mut batch = "link set lo up\n".to_owned();
        for (Interface { name, v4, v6, mac, .. }, peer) in self.node.interfaces.iter().zip(&self.neighbours) {
            batch += &format!(
                "link set {name} mtu {mtu} address {mac}\n\
                 link set {name} up\n\
                 addr add {v4}/24 dev {name}\n\
                 neigh replace {} lladdr {} dev {name} nud permanent\n",
                peer.v4, peer.mac
            );
            if ipv6 {
                batch += &format!(
                    "addr add {v6}/64 dev {name} nodad\n\
                     neigh replace {} lladdr {} dev {name} nud permanent\n",
                    peer.v6, peer.mac
                );
            }
        }
        for (Interface { name, .. }, line) in self.node.interfaces.iter().zip(&self.lines) {
            if let Some(line) = line {
                batch += &format!("link set {name} alias {LINE_ALIAS}{}\n", line.bps());
            }
        }
        for route in &self.routes {
            let (device, next) =
                (&self.node.interfaces[route.interface].name, &self.neighbours[route.interface]);
            let (v4, v6) = match route.link {
                Some(link) => (format!("10.77.{link}.0/24"), format!("fd77:0:0:{link:x}::/64")),
                None => ("0.0.0.0/0".to_owned(), "::/0".to_owned()),
            };
            batch += &format!("route add {v4} via {} dev {device}\n", next.v4);
            if ipv6 {
                batch += &format!("route add {v6} via {} dev {device}\n", next.v6);
            }
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use headway_scenario::{LinkSpec, Scenario};
    use headway_units::{Duration, Rate};

    use super::*;
    use crate::spec::Spec;

    fn links(ends: &[(&str, &str)]) -> Vec<Edge> {
        let link = |(from, to): &(&str, &str)| LinkSpec::at(from, to, Rate::from_mbps(1.0), Duration::ZERO);
        Spec::of(&Scenario::of(ends.iter().map(link).collect())).unwrap().links
    }

    /// Returns the first interface on the way to each subnet.
    fn ways(place: &Place) -> Vec<(Option<usize>, usize)> {
        place.routes.iter().map(|route| (route.link, route.interface)).collect()
    }

    #[test]
    fn a_single_link_has_the_addresses_it_always_had_and_no_routes() {
        let places = places(&links(&[("client", "server")]));
        let addresses: Vec<String> =
            places.iter().map(|place| format!("{} {}", place.node.v4, place.node.v6)).collect();
        assert_eq!(addresses, ["10.77.0.1 fd77::1", "10.77.0.2 fd77::2"]);
        assert!(places.iter().all(|place| place.routes.is_empty() && !place.is_router()));
        assert_eq!(places[1].node.mac, "02:00:00:00:77:02");
    }

    #[test]
    fn a_line_is_in_the_alias_of_the_interface_that_sends_into_it() {
        let mut links = links(&[("client", "server")]);
        links[0].path.forward.line = Some(Rate::from_mbps(100.0));
        let [client, server] = [0, 1].map(|node| places(&links)[node].commands(1500, true));
        assert!(client.contains("link set eth0 alias headway-line=100000000\n"), "{client}");
        assert!(!server.contains("alias"), "{server}");
    }

    #[test]
    fn routers_of_a_chain_lead_to_both_sides() {
        let places = places(&links(&[("h1", "r1"), ("r1", "r2"), ("r2", "h2")]));
        let names: Vec<&str> = places.iter().map(|place| place.node.name.as_str()).collect();
        assert_eq!(names, ["h1", "r1", "r2", "h2"]);
        assert_eq!(ways(&places[0]), [(None, 0)]);
        assert_eq!(ways(&places[1]), [(Some(2), 1)]);
        assert_eq!(ways(&places[2]), [(Some(0), 0)]);
        assert!(
            places[1].commands(1500, true).contains("route add fd77:0:0:2::/64 via fd77:0:0:1::2 dev eth1\n")
        );
        assert!(places[3].commands(1500, false).contains("route add 0.0.0.0/0 via 10.77.2.1 dev eth0\n"));
    }

    #[test]
    fn parallel_links_are_chosen_by_the_address() {
        // Two paths between h1 and h2: by r1, and by r2.
        let places = places(&links(&[("h1", "r1"), ("r1", "h2"), ("h1", "r2"), ("r2", "h2")]));
        let h1 = &places[0];
        assert_eq!(h1.node.interfaces.len(), 2);
        assert_eq!(ways(h1), [(Some(1), 0), (Some(3), 1)]);
        // Two links between the same nodes: each subnet is a neighbour's.
        let twins = places_of_twins();
        assert_eq!(twins[0].node.interfaces[1].v4, Ipv4Addr::new(10, 77, 1, 1));
        assert!(twins.iter().all(|place| place.routes.is_empty()));
    }

    fn places_of_twins() -> Vec<Place> {
        places(&links(&[("a", "b"), ("a", "b")]))
    }

    #[test]
    fn the_middle_of_a_star_leads_everywhere() {
        let places = places(&links(&[("a", "m"), ("b", "m"), ("c", "m")]));
        let middle = places.iter().find(|place| place.node.name == "m").unwrap();
        assert!(middle.is_router() && middle.routes.is_empty());
        assert!(places.iter().filter(|place| !place.is_router()).all(|place| ways(place) == [(None, 0)]));
    }
}
