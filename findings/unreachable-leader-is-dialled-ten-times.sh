#!/usr/bin/env bash
# franz-go asks for the leaders of a partition again only after every Produce request in flight to
# the previous leader has failed, one after the other, and it connects twice for each of them. A
# broker that is silently unreachable so costs ten connection timeouts or more with five requests in
# flight, although another broker leads from the third attempt on, and four with one in flight.
# MaxProduceRequestsInflightPerBroker changes nothing, because an idempotent producer ignores it.
#
# Versions: github.com/twmb/franz-go v1.22.2, franz-go/pkg/kfake v0.0.0-20260918054303-01f206a7e32c
# Source: documentation of kgo.DialTimeout and kgo.RetryBackoffFn, which name neither
# Product: docs/operate/failures.md recommends a short DialTimeout; make e2e measures with one.
. "$(dirname "$0")/lib.bash"

cat > "$work/main.go" <<'GO'
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// network connects to brokers. It can hold back what one broker answers, and can cut that broker
// off: its connections end, and connecting to it times out.
type network struct {
	broker  string // address
	held    atomic.Bool
	cut     chan struct{}
	dials   atomic.Int32 // attempts to connect to the broker since the cut
	dialing func(n int32)
}

func (n *network) dial(ctx context.Context, kind, address string) (net.Conn, error) {
	if address == n.broker {
		select {
		case <-n.cut:
			n.dialing(n.dials.Add(1))
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
		default:
		}
	}
	c, err := (&net.Dialer{}).DialContext(ctx, kind, address)
	if err != nil || address != n.broker {
		return c, err
	}
	return &conn{Conn: c, n: n}, nil
}

type conn struct {
	net.Conn
	n        *network
	produces atomic.Bool
}

func (c *conn) Write(p []byte) (int, error) {
	if len(p) > 6 && p[4] == 0 && p[5] == 0 { // the key of Produce
		c.produces.Store(true)
	}
	return c.Conn.Write(p)
}

func (c *conn) Read(p []byte) (int, error) {
	k, err := c.Conn.Read(p)
	if c.n.held.Load() && c.produces.Load() {
		<-c.n.cut
		return 0, errors.New("connection timed out")
	}
	return k, err
}

// dials returns how often a producer connects to a broker that was cut off, until it sends to the
// new leader, which is elected at the third attempt.
func dials(inFlight int, options ...kgo.Opt) int32 {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.SeedTopics(1, "t"))
	check(err)
	defer cluster.Close()
	check(cluster.MoveTopicPartition("t", 0, 0))
	n := &network{broker: cluster.ListenAddrs()[0], cut: make(chan struct{})}
	n.dialing = func(attempt int32) {
		if attempt == 3 {
			check(cluster.MoveTopicPartition("t", 0, 1))
		}
	}
	hook := &flights{n: n}
	backoff := func(int) time.Duration { return 20 * time.Millisecond }
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(cluster.ListenAddrs()[1]),
		kgo.Dialer(n.dial), kgo.MetadataMinAge(10*time.Millisecond), kgo.RetryBackoffFn(backoff),
		kgo.MaxBufferedRecords(1000), kgo.WithHooks(hook), kgo.ProducerLinger(0))...)
	check(err)
	defer client.Close()
	check(client.ProduceSync(context.Background(), &kgo.Record{Topic: "t"}).FirstErr())
	n.held.Store(true)
	hook.produced.Store(0)
	var acknowledged sync.WaitGroup
	for want := int32(1); want <= int32(inFlight); want++ {
		acknowledged.Add(1)
		client.Produce(context.Background(), &kgo.Record{Topic: "t"}, func(_ *kgo.Record, err error) {
			check(err)
			acknowledged.Done()
		})
		for hook.produced.Load() < want {
			time.Sleep(time.Millisecond)
		}
	}
	close(n.cut)
	acknowledged.Wait()
	return n.dials.Load()
}

// flights counts the Produce requests that were written.
type flights struct {
	n        *network
	produced atomic.Int32
}

func (f *flights) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration,
	err error) {
	if key == 0 && err == nil {
		f.produced.Add(1)
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	limit := kgo.MaxProduceRequestsInflightPerBroker(1)
	fmt.Println("fewer than ten:", dials(1) < 10)
	fmt.Println("ten or more:", dials(5) >= 10)
	fmt.Println("ten or more:", dials(5, limit) >= 10)
}
GO
cd "$work"
go mod init finding 2> go.log
go get github.com/twmb/franz-go@v1.22.2 \
  github.com/twmb/franz-go/pkg/kfake@v0.0.0-20260918054303-01f206a7e32c 2>> go.log
go mod tidy 2>> go.log
output=$(go run .)
same "one request in flight" "$(sed -n 1p <<<"$output")" "fewer than ten: true"
same "five requests in flight" "$(sed -n 2p <<<"$output")" "ten or more: true"
same "five requests, limit of one" "$(sed -n 3p <<<"$output")" "ten or more: true"
