// Package ports reserves ports for brokers that a test stops and then restarts on the same port.
package ports

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Tests use ports below the system's range for outgoing connections. Otherwise the system could
// assign the port of a stopped broker to a client's outgoing connection or to a listener on port 0.
// The broker could then not restart on its port.
const portFirst, portLast = 10000, 20000

// blockPorts is the number of consecutive ports that one call reserves. The test itself listens on
// the first port of the block.
const blockPorts = 8

// Free returns the address of the first of n consecutive free ports on loopback. They are reserved
// until the test ends.
func Free(t *testing.T, n int) string {
	t.Helper()
	return Each(t, n)[0]
}

// Each returns the addresses of n consecutive free ports on loopback. They are reserved until the
// test ends.
func Each(t *testing.T, n int) []string {
	t.Helper()
	var addresses []string
	first := reserve(t, n)
	for i := range n {
		addresses = append(addresses, address(first+i))
	}
	return addresses
}

// reserve finds n consecutive free ports and returns the first. It cannot listen on these ports
// itself, because the test's brokers will listen on them. Instead it listens on the port before
// them until the test ends. Other tests, in any package, skip a block of ports if its first port is
// occupied.
func reserve(t *testing.T, n int) int {
	t.Helper()
	if n < 1 || n >= blockPorts {
		t.Fatalf("%d ports requested: a block has %d", n, blockPorts-1)
	}
	for range 1000 {
		block := portFirst + blockPorts*rand.IntN((portLast-portFirst)/blockPorts)
		keeper, err := net.Listen("tcp", address(block))
		if err != nil {
			continue
		}
		if unused(block+1, n) {
			t.Cleanup(func() { keeper.Close() })
			return block + 1
		}
		keeper.Close()
	}
	t.Fatalf("found no %d consecutive free ports", n)
	return 0
}

func address(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }

// unused reports whether none of n ports has a listener.
func unused(port, n int) bool {
	for i := range n {
		listener, err := net.Listen("tcp", address(port+i))
		if err != nil {
			return false
		}
		listener.Close()
	}
	return true
}
