// Command client produces to topics of a cluster and checks what they hold, from inside Kubernetes,
// where the brokers' advertised names resolve. The end-to-end test runs it in a pod and drives it
// over HTTP, by way of the API server:
//
//	POST /produce?topic=T&keys=N&rounds=N&deleteEvery=N   writes N rounds and waits for every acknowledgement
//	POST /stream?topic=T&keys=N&perSecond=N               writes without end, so many records a second at most, until
//	POST /stop?topic=T                                    which waits until all that is in flight is answered
//	POST /reopen                                          begins with new producers: a franz-go client does not take up a topic that was
//	                                                      made again under its name
//	POST /mark?topic=T                                    begins to measure anew how long partitions take nothing
//	POST /probe?topic=T&partitions=N                      sends a record to each partition, and says when each took it
//	GET  /check?topic=T&whole=1                           reads the topic whole and compares it with what was acknowledged; whole: with
//	                                                      every record of it, not each key's last
//	GET  /stats?topic=T                                   how much was acknowledged, and how long partitions took nothing
//	POST /join?topic=T&group=G&next=1                     consumes the topic in a group; next: with the protocol of KIP-848
//	GET  /group?topic=T                                   how much the group had
//	POST /leave?topic=T                                   commits, and leaves the group
//	POST /move?topic=T&partition=N&replicas=N,N           Kafka's AlterPartitionReassignments
//	GET  /moving?topic=T                                  Kafka's ListPartitionReassignments
//	POST /elect?topic=T&partition=N                       Kafka's ElectLeaders, of the preferred one
//	GET  /nearest?topic=T&rack=R                          reads the topic in a rack, and says from which brokers
//
// What was acknowledged is remembered for each topic as long as the pod lives, across deleted pods,
// topics and clusters.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// autoCommit is how often a consumer commits.
const autoCommit = time.Second

func main() {
	bootstrap := flag.String("bootstrap", "", "host:port,... of the cluster")
	listen := flag.String("listen", ":8080", "host:port of the HTTP server")
	flag.Parse()
	if err := run(strings.Split(*bootstrap, ","), *listen); err != nil {
		log.Fatal(err)
	}
}

func run(bootstrap []string, listen string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	gaps := &gaps{topics: map[string]map[int32]*gap{}, marked: map[string]time.Time{}}
	handler := &server{ctx: ctx, bootstrap: bootstrap, gaps: gaps, accounts: map[string]*account{}}
	if err := handler.open(); err != nil {
		return err
	}
	defer handler.close()
	httpServer := &http.Server{Addr: listen, Handler: handler.routes(),
		ReadHeaderTimeout: 10 * time.Second}
	closed := context.AfterFunc(ctx, func() { _ = httpServer.Close() })
	defer closed()
	if err := httpServer.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// logger writes what a client of the log warns of.
func logger(prefix string) kgo.Logger {
	return kgo.BasicLogger(os.Stderr, kgo.LogLevelWarn,
		func() string { return time.Now().Format("15:04:05.000 ") + prefix })
}
