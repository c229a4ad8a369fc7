// Command benchfailover measures for how long partitions accept no writes after a broker of
// `heartwood dev --processes` was killed or stopped; see docs/internals/bench/failover.md. The
// cluster must run on this machine, and its topic must exist.
//
// Some partitions are under a steady load: records are written with acks=all, each after the
// previous record's acknowledgement. A gap is the time between two acknowledgements of one
// partition. After a fault, one record is written to every partition. The last of these
// acknowledgements shows when the last new leader accepted a write.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// probeTimeout is the timeout of the writes to all partitions after a fault. settleTimeout is the
// time limit until all replicas are in sync again.
const (
	probeTimeout  = 60 * time.Second
	settleTimeout = 120 * time.Second
	// loadPause is the time between an acknowledgement and the next record, in a partition under load.
	loadPause = 20 * time.Millisecond
)

// bench is a benchmark run.
type bench struct {
	address, topic, output string // output is the file with the standard output of `heartwood dev`
	partitions, loaded     int
	kills                  int
	alone                  bool // each partition under load has a separate client
	client                 *kgo.Client
	mu                     sync.Mutex
	gaps                   []gap // gaps since resetGaps was last called; protected by mu
}

// gap is the time between two acknowledgements of a partition under load.
type gap struct {
	partition int32
	ended     time.Time
	length    time.Duration
}

func main() {
	b := bench{}
	flag.StringVar(&b.address, "brokers", "127.0.0.1:9092", "comma-separated addresses of the brokers")
	flag.StringVar(&b.topic, "topic", "failover", "topic to write to")
	flag.StringVar(&b.output, "output", "",
		"file to read; it contains the standard output of heartwood dev --processes")
	flag.IntVar(&b.partitions, "partitions", 1000, "partitions of the topic")
	flag.IntVar(&b.loaded, "loaded", 30,
		"number of partitions with a steady load, starting at partition 0")
	faults := flag.String("faults", "kill,term",
		"faults to inject, in this order: kill, term, turns (consecutive kills, 10 s apart),\n"+
			"or steady (no fault, for 10 s)")
	flag.IntVar(&b.kills, "kills", 3, "number of consecutive kills with -faults turns")
	flag.BoolVar(&b.alone, "alone", false,
		"use a client for each loaded partition; in a shared client a response waits for the\n"+
			"slowest partition of its request")
	flag.Parse()
	if err := b.run(strings.Split(*faults, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "benchfailover:", err)
		os.Exit(1)
	}
}

// run injects the faults one after the other. Before each fault, it waits until all replicas are in
// sync.
func (b *bench) run(faults []string) (err error) {
	b.client, err = b.connect()
	if err != nil {
		return err
	}
	defer b.client.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// This write to all partitions fills the client's metadata with all leaders.
	if _, err := b.probe(ctx, nil); err != nil {
		return fmt.Errorf("write before any fault: %w", err)
	}
	clients, err := b.loaders()
	if err != nil {
		return err
	}
	defer func() {
		for _, client := range clients {
			if client != b.client {
				client.Close()
			}
		}
	}()
	var load sync.WaitGroup
	defer load.Wait()
	defer cancel()
	for i, client := range clients {
		load.Go(func() { b.load(ctx, client, int32(i)) })
	}
	for turn, fault := range faults {
		if err := b.fault(ctx, fault, int32(turn%3)); err != nil {
			return fmt.Errorf("%s: %w", fault, err)
		}
	}
	return nil
}

func (b *bench) connect() (*kgo.Client, error) {
	return kgo.NewClient(
		kgo.SeedBrokers(strings.Split(b.address, ",")...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.MetadataMinAge(100*time.Millisecond),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
		kgo.RecordDeliveryTimeout(probeTimeout),
	)
}

// loaders returns a client for each partition under load. Without -alone, all partitions share one
// client.
func (b *bench) loaders() ([]*kgo.Client, error) {
	clients := make([]*kgo.Client, b.loaded)
	for i := range clients {
		clients[i] = b.client
		if !b.alone {
			continue
		}
		var err error
		if clients[i], err = b.connect(); err != nil {
			return nil, err
		}
	}
	return clients, nil
}

// load writes records to a partition until ctx ends, and adds a gap after each acknowledgement.
func (b *bench) load(ctx context.Context, client *kgo.Client, partition int32) {
	last := time.Now()
	for ctx.Err() == nil {
		record := &kgo.Record{Topic: b.topic, Partition: partition,
			Value: []byte("a record of the load")}
		if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
			if ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "benchfailover: failed to produce: partition", partition, err)
			}
			continue
		}
		now := time.Now()
		b.mu.Lock()
		b.gaps = append(b.gaps, gap{partition, now, now.Sub(last)})
		b.mu.Unlock()
		last = now
		select {
		case <-ctx.Done():
		case <-time.After(loadPause):
		}
	}
}

// probe writes one record to every partition. It returns the time of the last acknowledgement by a
// partition in the set included. If included is nil, all partitions count.
func (b *bench) probe(ctx context.Context, included map[int32]bool) (last time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var mu sync.Mutex
	var wait sync.WaitGroup
	for i := range b.partitions {
		wait.Add(1)
		b.client.Produce(ctx, &kgo.Record{Topic: b.topic, Partition: int32(i),
			Value: []byte("a probe")}, func(r *kgo.Record, fault error) {
			defer wait.Done()
			mu.Lock()
			defer mu.Unlock()
			err = errors.Join(err, fault)
			if now := time.Now(); (included == nil || included[r.Partition]) && now.After(last) {
				last = now
			}
		})
	}
	wait.Wait()
	return last, err
}

// fault waits until the cluster is settled, injects a fault into a broker and prints the effect.
func (b *bench) fault(ctx context.Context, kind string, broker int32) error {
	if err := b.settle(ctx); err != nil {
		return err
	}
	switch kind {
	case "turns":
		return b.turns(ctx)
	case "steady":
		return b.steady(ctx)
	}
	led, err := b.led(ctx, broker)
	if err != nil {
		return err
	}
	pid, err := b.pid(broker)
	if err != nil {
		return err
	}
	signal := syscall.SIGKILL
	if kind == "term" {
		signal = syscall.SIGTERM
	}
	b.resetGaps()
	moment := time.Now()
	if err := syscall.Kill(pid, signal); err != nil {
		return err
	}
	inSync := make(chan error, 1)
	var inSyncAt time.Time
	go func() {
		var err error
		inSyncAt, err = b.awaitInSync(ctx)
		inSync <- err
	}()
	last, err := b.probe(ctx, led)
	if err != nil {
		return err
	}
	all := last.Sub(moment)
	select { // a gap is measured only when it ends, so the load continues for a moment
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(2 * time.Second):
	}
	touched, untouched := b.worst(led, moment)
	fmt.Printf("%s of broker %d, leader of %d of %d partitions: the last new leader accepted a "+
		"write after %s; worst gap under load %s, of partitions with other leaders %s\n",
		kind, broker, len(led), b.partitions, milli(all), milli(touched), milli(untouched))
	b.resetGaps()
	if err := <-inSync; err != nil {
		return err
	}
	if err := b.settle(ctx); err != nil {
		return err
	}
	touched, untouched = b.worst(led, moment)
	fmt.Printf("  all in sync again after %s, preferred leaders lead after %s; "+
		"worst gap until then %s\n",
		milli(inSyncAt.Sub(moment)), milli(time.Since(moment)), milli(max(touched, untouched)))
	return nil
}

// turns kills the three brokers in turn, 10 s apart. It prints the worst gap of the partitions that
// the killed broker led, and the worst gap of the other partitions, which should remain available.
func (b *bench) turns(ctx context.Context) error {
	for turn := range int32(b.kills) {
		broker := turn % 3
		led, err := b.led(ctx, broker)
		if err != nil {
			return err
		}
		pid, err := b.pid(broker)
		if err != nil {
			return err
		}
		b.resetGaps()
		moment := time.Now()
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Second):
		}
		touched, untouched := b.worst(led, moment)
		fmt.Printf("turn %d, kill of broker %d, leader of %d partitions: worst gap under load %s, "+
			"of partitions with other leaders %s\n",
			turn+1, broker, len(led), milli(touched), milli(untouched))
	}
	return nil
}

// steady prints the cost of the load: the number of records, and the brokers' CPU time.
func (b *bench) steady(ctx context.Context) error {
	brokerCPU := func() (all time.Duration, err error) {
		for broker := range int32(3) {
			pid, err := b.pid(broker)
			if err != nil {
				return 0, err
			}
			one, err := cpuTime(pid)
			if err != nil {
				return 0, err
			}
			all += one
		}
		return all, nil
	}
	before, err := brokerCPU()
	if err != nil {
		return err
	}
	b.resetGaps()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(10 * time.Second):
	}
	after, err := brokerCPU()
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	records, used := len(b.gaps), after-before
	fmt.Printf("steady for 10s: %d records, CPU time of the brokers %s", records, milli(used))
	if records > 0 {
		fmt.Printf(", %s per record", (used / time.Duration(records)).Round(time.Microsecond))
	}
	fmt.Println()
	return nil
}

// cpuTime returns a process's CPU time from /proc/PID/stat: the sum of fields 14 and 15, in
// hundredths of a second.
func cpuTime(pid int) (time.Duration, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseCPUTime(string(content))
}

func parseCPUTime(stat string) (time.Duration, error) {
	// The second field is the process's name in parentheses. The name can contain spaces and
	// parentheses, so the fields are counted from the last parenthesis.
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("parse /proc/PID/stat: only %d fields", len(fields))
	}
	hundredths := int64(0)
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		hundredths += n
	}
	return time.Duration(hundredths) * 10 * time.Millisecond, nil
}

func (b *bench) resetGaps() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gaps = nil
}

// worst returns the longest gaps that ended at or after the time moment. touched is the longest gap
// of the partitions in the set led, and untouched the longest gap of the other partitions.
func (b *bench) worst(led map[int32]bool, moment time.Time) (touched, untouched time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, g := range b.gaps {
		if g.ended.Before(moment) {
			continue
		}
		if led[g.partition] {
			touched = max(touched, g.length)
		} else {
			untouched = max(untouched, g.length)
		}
	}
	return touched, untouched
}

// metadata requests the topic's metadata from any broker.
func (b *bench) metadata(ctx context.Context) ([]kmsg.MetadataResponseTopicPartition, error) {
	request := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = kmsg.StringPtr(b.topic)
	request.Topics = append(request.Topics, topic)
	response, err := request.RequestWith(ctx, b.client)
	if err != nil {
		return nil, err
	}
	if len(response.Topics) != 1 || len(response.Topics[0].Partitions) != b.partitions {
		return nil, fmt.Errorf("topic %s with %d partitions does not exist", b.topic, b.partitions)
	}
	return response.Topics[0].Partitions, nil
}

// led returns the partitions that a broker leads.
func (b *bench) led(ctx context.Context, broker int32) (map[int32]bool, error) {
	partitions, err := b.metadata(ctx)
	led := map[int32]bool{}
	for _, p := range partitions {
		if p.Leader == broker {
			led[p.Partition] = true
		}
	}
	return led, err
}

// awaitInSync waits until any replica is out of sync, and then until all replicas are in sync
// again. It returns the time at which they were. Any broker can respond, and its metadata image can
// be outdated. So all replicas must be in sync in twenty responses in a row; the returned time is
// the time of the first of these responses.
func (b *bench) awaitInSync(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	outOfSync, inSyncCount := false, 0
	var since time.Time
	for {
		partitions, err := b.metadata(ctx)
		out := slices.ContainsFunc(
			partitions,
			func(p kmsg.MetadataResponseTopicPartition) bool { return len(p.ISR) < len(p.Replicas) },
		)
		outOfSync = outOfSync || out
		if inSyncCount++; err != nil || out {
			inSyncCount = 0
		}
		if inSyncCount == 1 {
			since = time.Now()
		}
		if outOfSync && inSyncCount >= 20 {
			return since, nil
		}
		select {
		case <-ctx.Done():
			return time.Time{},
				fmt.Errorf("wait for in-sync replicas: not in sync, or never out of sync, within %s",
					settleTimeout)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// settle waits until all replicas are in sync and the preferred leaders lead.
func (b *bench) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for {
		partitions, err := b.metadata(ctx)
		unsettled := slices.ContainsFunc(partitions, func(p kmsg.MetadataResponseTopicPartition) bool {
			return len(p.ISR) < len(p.Replicas) || p.Leader != p.Replicas[0]
		})
		if err == nil && !unsettled {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for in-sync replicas and preferred leaders: not reached within %s",
				settleTimeout)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// pid returns a broker's process id. It reads the id from the last line `broker N started pid=P` in
// the file b.output.
func (b *bench) pid(broker int32) (pid int, err error) {
	file, err := os.Open(b.output)
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var id int32
		var found int
		if n, _ := fmt.Sscanf(lines.Text(), "broker %d started pid=%d", &id, &found); n == 2 &&
			id == broker {
			pid = found
		}
	}
	if pid <= 1 {
		return 0, fmt.Errorf("find process of broker %d: no line in %s", broker, b.output)
	}
	return pid, nil
}

func milli(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
