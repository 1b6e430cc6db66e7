package transport

// maxSegment is the maximum payload of our TCP segments, in bytes, in both directions: with the
// headers of IPv6 and TCP (60 bytes) the packet has 1,100 bytes, with those of IPv4 (40) 1,080.
//
// Tunnels (VPN, PPPoE, overlay networks) carry less than the 1,500 bytes of Ethernet, and many drop
// longer packets without telling the sender, since they or a firewall beside them send no ICMP. A
// connection through such a tunnel opens, as its first packets are small, and hangs at the first
// long packet: the ClientHello of TLS, which has had 1,500 bytes and more since the introduction of
// post-quantum key exchange. Each side announces its segment size when a connection opens, so
// clamping one side is enough for both directions.
//
// 1,100 bytes are below the limits of all common tunnels, including stacked tunnels (WireGuard in
// VXLAN in PPPoE: 1,362). The price is 4 % of a link's capacity instead of 3 %, noticeable only in
// syncs of very many leases.
const maxSegment = 1040
