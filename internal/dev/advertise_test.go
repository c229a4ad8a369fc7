package dev

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/internal/metadata/local"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/ports"
)

// forward accepts connections at one address and forwards them to another, like a container runtime
// with a mapped port.
func forward(t *testing.T, from, to string) {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", from)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() { listener.Close(); all.Wait() })
	all.Go(func() {
		for {
			outside, err := listener.Accept()
			if err != nil {
				return
			}
			inside, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", to)
			if err != nil {
				outside.Close()
				continue
			}
			all.Go(func() { _, _ = io.Copy(inside, outside); inside.Close() })
			all.Go(func() { _, _ = io.Copy(outside, inside); outside.Close() })
		}
	})
}

// TestAdvertisedAddresses checks that clients reach two brokers through mapped ports, like the
// ports of a container. The brokers do not need the mapping: the topic is replicated without it.
func TestAdvertisedAddresses(t *testing.T) {
	inside, outside := ports.Each(t, 2), ports.Each(t, 2)
	opts := options(t, topic("a", "partitions: 2, replicas: 2, minInSyncReplicas: 2"))
	opts.Listen, opts.Advertise, opts.Brokers = inside[0], outside[0], 2
	opts.Listen = strings.Replace(opts.Listen, "127.0.0.1", "", 1) // listen on all interfaces
	r := start(t, opts)
	if got, want := r.ready["bootstrap"], strings.Join(outside, ","); got != want {
		t.Errorf("got bootstrap %s, want %s", got, want)
	}
	for i := range outside {
		forward(t, outside[i], inside[i])
	}
	client := r.client()
	for i := range int32(2) {
		record := &kgo.Record{Topic: "a", Partition: i, Value: []byte("x")}
		if err := client.ProduceSync(t.Context(), record).FirstErr(); err != nil {
			t.Error(err)
		}
	}
	if _, err := r.admin().ListEndOffsets(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	r.stop()
	opts.Listen, opts.Advertise = inside[0], "127.0.0.1:65535"
	if err := Run(t.Context(), opts); !errors.Is(err, ErrUsage) {
		t.Errorf("too few advertised ports: got error %v", err)
	}
}

// TestConsoleNeedsNoMappedPort checks that the console connects to the port on which a broker
// listens, and not to the advertised port.
func TestConsoleNeedsNoMappedPort(t *testing.T) {
	var config net.ListenConfig
	broker, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	store, err := local.Open(vfs.NewMem(), "/metadata.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Sync(nil, 2, nil); err != nil {
		t.Fatal(err)
	}
	port := broker.Addr().(*net.TCPAddr).Port
	c := &cluster{store: store, listen: address{port: port - 1},
		advertise: address{host: "kafka.example", port: 19092}}
	conn, err := c.dialBroker(t.Context(), "tcp", "kafka.example:19093")
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}
