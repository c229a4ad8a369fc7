package ports

import (
	"net"
	"strconv"
	"testing"
)

// TestReservedPortsAreNotGivenTwice checks that a test's ports are free, and that no other test
// gets them although nothing listens on them.
func TestReservedPortsAreNotGivenTwice(t *testing.T) {
	given := map[string]bool{}
	for range 300 {
		for _, address := range Each(t, 3) {
			if given[address] {
				t.Fatalf("%s was given twice", address)
			}
			given[address] = true
			_, text, err := net.SplitHostPort(address)
			port, failed := strconv.Atoi(text)
			if err != nil || failed != nil || port < portFirst || port >= portLast {
				t.Fatalf("got %s", address)
			}
		}
	}
}

// TestPortsInUseAreSkipped checks that no test gets a block in which a port has a listener.
func TestPortsInUseAreSkipped(t *testing.T) {
	first := reserve(t, 1)
	listener, err := net.Listen("tcp", address(first+1))
	if err != nil {
		t.Skipf("another process listens on %s: %v", address(first+1), err)
	}
	defer listener.Close()
	if unused(first, 2) || !unused(first, 1) {
		t.Errorf("the listener on %s is not seen", address(first+1))
	}
}
