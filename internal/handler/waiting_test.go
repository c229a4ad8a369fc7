package handler

import (
	"net"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/internal/wire"
	"heartwood.dev/heartwood/test/kit/await"
)

// gatedDisk signals each write to a data file on channel wrote. Syncs of data files block until
// channel gate is closed.
type gatedDisk struct {
	vfs.FS
	wrote chan struct{}
	gate  chan struct{}
}

func (d gatedDisk) Create(name string) (vfs.File, error) {
	file, err := d.FS.Create(name)
	if err != nil || !strings.HasSuffix(name, ".log") {
		return file, err
	}
	return gatedFile{file, d}, nil
}

type gatedFile struct {
	vfs.File
	disk gatedDisk
}

func (f gatedFile) WriteAt(p []byte, offset int64) (int, error) {
	n, err := f.File.WriteAt(p, offset)
	f.disk.wrote <- struct{}{}
	return n, err
}

func (f gatedFile) Sync() error {
	<-f.disk.gate
	return f.File.Sync()
}

// TestWaitingProducesHoldNoBudget sends many large produce requests to a server whose memory budget
// is only sufficient for one of them. All of them must be appended and wait for replication at the
// same time.
func TestWaitingProducesHoldNoBudget(t *testing.T) {
	const requests, partitions = 12, 3
	disk := gatedDisk{FS: vfs.NewMem(), wrote: make(chan struct{}, requests*partitions),
		gate: make(chan struct{})}
	b := newBrokerOn(t, disk)
	b.topic("t", func(topic *metadata.Topic) {
		topic.Settings.Fsync = true
		for len(topic.Partitions) < partitions {
			next := *topic.Partitions[0]
			next.Index = int32(len(topic.Partitions))
			topic.Partitions = append(topic.Partitions, &next)
		}
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	serve(t, wire.Options{Listener: listener, Handler: b.Handler, LargeBytesMax: 4 << 20})
	req := produceRequestFor("t", -1)
	req.TimeoutMillis = int32(time.Hour.Milliseconds())
	value := strings.Repeat("v", 1<<20-200)
	for i := range int32(partitions) {
		more := produceRequestFor("t", -1, batch(t, compress.None, value)).Topics[0].Partitions[0]
		more.Partition = i
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, more)
	}
	frame := frameOf(req)
	clients := make([]rawClient, requests)
	for i := range clients {
		clients[i] = dial(t, listener)
		go func() { _, _ = clients[i].Write(frame) }()
	}
	deadline := time.After(await.Limit)
	for n := range requests * partitions {
		select {
		case <-disk.wrote:
		case <-deadline:
			close(disk.gate)
			t.Fatalf(
				"got %d of %d batches written: waiting requests use up the budget",
				n,
				requests*partitions,
			)
		}
	}
	close(disk.gate)
	for _, client := range clients {
		client.wantProduced(t)
	}
}
