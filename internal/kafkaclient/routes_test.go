package kafkaclient

import (
	"strings"
	"testing"
)

func TestUnknownAddressIsRefused(t *testing.T) {
	r := newRoutes(Options{Addresses: map[int32]string{0: "broker-0:9092"}})
	if _, err := r.dialKnown(t.Context(), "tcp", "elsewhere:1"); err == nil ||
		!strings.Contains(err.Error(), "no broker of the LogCluster advertises this address") {
		t.Errorf("an unknown address: %v", err)
	}
}
