// Command client produces to topics of a cluster and checks their contents. It runs in a pod,
// because the brokers' advertised names resolve there. The end-to-end test calls it over HTTP
// through the API server's proxy:
//
//	POST /produce?topic=T&keys=N&rounds=N&deleteEvery=N
//	        writes N rounds and waits for every acknowledgement
//	POST /stream?topic=T&keys=N&perSecond=N
//	        writes at a limited rate until /stop
//	POST /stop?topic=T
//	        ends the stream and waits until every request in flight has a response
//	POST /reopen?timeout=D&dial=D
//	        creates new producers, because a franz-go client does not recognize a topic that was
//	        deleted and created again with the same name; timeout is half of how long they wait for
//	        a response to Produce, and dial is their connection timeout
//	POST /mark?topic=T
//	        resets the longest gaps and the latencies, which GET /stats reports
//	POST /probe?topic=T&partitions=N
//	        sends a record to each partition, and reports the time until its acknowledgement
//	GET  /check?topic=T&all=1
//	        reads the whole topic and compares it with the acknowledged records: with all of them
//	        if all is set, otherwise with the last record of each key
//	GET  /stats?topic=T
//	        reports the number of acknowledged records, the gaps (the longest times for which each
//	        partition has acknowledged no record) and percentiles of the latency of records
//	POST /join?topic=T&group=G&next=1
//	        consumes the topic in a group, with the consumer protocol (KIP-848) if next is set
//	GET  /group?topic=T
//	        reports the number of records that the group has consumed
//	POST /leave?topic=T
//	        commits and leaves the group
//	POST /copy?topic=T&to=T&group=G&instances=N
//	        copies the records that are written from now on to another topic, in transactions that
//	        also commit the offsets
//	GET  /copying?topic=T
//	        reports how many records are not copied yet, and the coordinator of a transactional id
//	POST /endCopy?topic=T
//	        stops the copy, and checks that the output has each record of the input exactly once
//	POST /reassign?topic=T&partition=N&replicas=N,N
//	        sends AlterPartitionReassignments
//	GET  /reassigning?topic=T
//	        sends ListPartitionReassignments
//	POST /elect?topic=T&partition=N
//	        sends ElectLeaders for the preferred leader
//	POST /configs?topic=T&key=K&value=V&op=N
//	        sends IncrementalAlterConfigs with one setting; op is Kafka's number of the operation, or
//	        "replace" for AlterConfigs
//	GET  /nearest?topic=T&rack=R
//	        reads the topic as a consumer in a rack, and counts the batches that each broker sent
//
// With --remove, it instead removes a directory, for example on the volume of a stopped broker.
//
// As long as the pod runs, the client keeps each topic's acknowledged records in memory, even if
// brokers, topics or clusters are deleted.
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

// autoCommit is the interval at which consumers commit.
const autoCommit = time.Second

func main() {
	bootstrap := flag.String("bootstrap", "",
		"comma-separated bootstrap addresses, `HOST:PORT,...`")
	listen := flag.String("listen", ":8080", "`HOST:PORT` of the HTTP server")
	remove := flag.String("remove", "", "remove this `DIRECTORY`, which must exist, and exit")
	flag.Parse()
	if *remove != "" {
		if err := removeDirectory(*remove); err != nil {
			log.Fatal(err)
		}
		return
	}
	if err := run(strings.Split(*bootstrap, ","), *listen); err != nil {
		log.Fatal(err)
	}
}

// removeDirectory removes a directory with its content. It fails if the directory does not exist.
func removeDirectory(path string) error {
	if _, err := os.Stat(path); err != nil {
		return err
	}
	return os.RemoveAll(path)
}

func run(bootstrap []string, listen string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	gaps := &gaps{topics: map[string]map[int32]*gap{}, marked: map[string]time.Time{}}
	handler := &server{ctx: ctx, bootstrap: bootstrap, gaps: gaps,
		latencies: &latencies{topics: map[string]map[int64]int{}}, accounts: map[string]*account{}}
	if err := handler.open(0, 0); err != nil {
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

// logger logs the warnings of a Kafka client.
func logger(prefix string) kgo.Logger {
	return kgo.BasicLogger(os.Stderr, kgo.LogLevelWarn,
		func() string { return time.Now().Format("15:04:05.000 ") + prefix })
}
