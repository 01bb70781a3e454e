package guard

import "net/netip"

// public tells whether an address belongs to the public internet. The ranges are those of the IANA special-purpose registries that are
// not globally reachable; package netip knows only some of them. Addresses that carry an IPv4 address are judged by that, too.
func public(address netip.Addr) bool {
	if !address.IsValid() || !address.IsGlobalUnicast() || address.IsPrivate() {
		return false
	}
	for _, network := range special {
		if network.Contains(address) {
			return false
		}
	}
	if v4, ok := carried(address); ok {
		return public(v4)
	}
	return true
}

// special are the networks that are not public, besides those that netip tells: loopback, link-local (and with it the metadata service
// 169.254.169.254), multicast, unspecified and private ones.
var special = prefixes(
	"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
	"240.0.0.0/4",
	"::/96", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16", "fec0::/10",
)

func prefixes(texts ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(texts))
	for i, t := range texts {
		all[i] = netip.MustParsePrefix(t)
	}
	return all
}

// carried is the IPv4 address inside one of IPv6, where a gateway would take it from: NAT64 and 6to4.
func carried(address netip.Addr) (netip.Addr, bool) {
	if !address.Is6() {
		return netip.Addr{}, false
	}
	b := address.As16()
	switch {
	case netip.MustParsePrefix("64:ff9b::/96").Contains(address):
		return netip.AddrFrom4([4]byte(b[12:16])), true
	case netip.MustParsePrefix("2002::/16").Contains(address):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	return netip.Addr{}, false
}
