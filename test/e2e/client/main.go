// Command client produces to topics of a cluster and checks what they hold, from inside Kubernetes, where the brokers' advertised
// names resolve. The end-to-end test runs it in a pod and drives it over HTTP, by way of the API server:
//
//	POST /produce?topic=T&keys=N&rounds=N&deleteEvery=N   writes N rounds and waits for every acknowledgement
//	POST /stream?topic=T&keys=N&perSecond=N               writes without end, so many records a second at most, until
//	POST /stop?topic=T                                    which waits until all that is in flight is answered
//	GET  /check?topic=T                                   reads the topic whole and compares it with what was acknowledged
//	GET  /stats?topic=T                                   how much was acknowledged, and how long a partition took nothing at most
//
// What was acknowledged is remembered for each topic as long as the pod lives, across deleted pods, topics and clusters.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

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
	gaps := &gaps{topics: map[string]*gap{}}
	producer, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap...), kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.ProducerBatchMaxBytes(64<<10),
		kgo.MaxBufferedRecords(10_000), kgo.MetadataMinAge(100*time.Millisecond), kgo.UnknownTopicRetries(-1), kgo.WithHooks(gaps),
	)
	if err != nil {
		return fmt.Errorf("make a producer for %v: %w", bootstrap, err)
	}
	defer producer.Close()
	handler := &server{ctx: ctx, bootstrap: bootstrap, producer: producer, gaps: gaps, accounts: map[string]*account{}}
	httpServer := &http.Server{Addr: listen, Handler: handler.routes(), ReadHeaderTimeout: 10 * time.Second}
	closed := context.AfterFunc(ctx, func() { _ = httpServer.Close() })
	defer closed()
	if err := httpServer.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
