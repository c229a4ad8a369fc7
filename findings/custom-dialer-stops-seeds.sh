#!/usr/bin/env bash
# franz-go asks another seed broker if it cannot connect to one, but only if the error of the dialer
# is a *net.OpError. With a custom dialer that returns another error (here: errors.New), a request
# ends with that error although another seed is alive, whenever the dead seed comes first.
# Client.Ping is an exception: it tries all seeds.
#
# Versions: github.com/twmb/franz-go v1.22.2, franz-go/pkg/kfake v0.0.0-20260918054303-01f206a7e32c
# Source: documentation of kgo.Dialer, which does not mention the type of the error
# Product: the dialer that forwards to pods returns *net.OpError (internal/cli/forward).
. "$(dirname "$0")/lib.bash"

cat > "$work/main.go" <<'GO'
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// requests sends 40 requests, each by a new client with two seeds, and returns the number of those
// that succeed. The dialer fails for one of the seeds.
func requests(alive string, failure error) (succeeded int) {
	const dead = "127.0.0.1:1"
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == dead {
			return nil, failure
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	for range 40 {
		client, err := kgo.NewClient(kgo.SeedBrokers(dead, alive), kgo.Dialer(dial))
		if err != nil {
			panic(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		if _, err = client.Request(ctx, kmsg.NewPtrMetadataRequest()); err == nil {
			succeeded++
		} else if !errors.Is(err, failure) {
			panic(err)
		}
		cancel()
		client.Close()
	}
	return succeeded
}

func main() {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		panic(err)
	}
	defer cluster.Close()
	alive := cluster.ListenAddrs()[0]
	failure := errors.New("no pod")
	all := requests(alive, &net.OpError{Op: "dial", Net: "tcp", Err: failure})
	fmt.Println("all succeed:", all == 40)
	some := requests(alive, failure)
	fmt.Println("some fail:", some < 40, "some succeed:", some > 0)
}
GO
cd "$work"
go mod init finding 2> go.log
go get github.com/twmb/franz-go@v1.22.2 \
  github.com/twmb/franz-go/pkg/kfake@v0.0.0-20260918054303-01f206a7e32c 2>> go.log
go mod tidy 2>> go.log
output=$(go run .)
same "dialer with *net.OpError" "$(sed -n 1p <<<"$output")" "all succeed: true"
same "dialer with another error" "$(sed -n 2p <<<"$output")" "some fail: true some succeed: true"
