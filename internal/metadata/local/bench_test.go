package local

import (
	"testing"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/vfs"
)

// BenchmarkBrokerRestart measures the restart of one of three brokers with 1,000 partitions of
// three replicas. It includes two rounds of elections, two images and two writes, on an in-memory
// disk.
func BenchmarkBrokerRestart(b *testing.B) {
	mem := vfs.NewMem()
	if err := mem.MkdirAll(directory); err != nil {
		b.Fatal(err)
	}
	s, err := Open(mem, file)
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Sync(nil, 3, nil); err != nil {
		b.Fatal(err)
	}
	if _, err := s.CreateTopic(b.Context(),
		metadata.NewTopic{Name: "a", Partitions: 1000, Replicas: 3}); err != nil {
		b.Fatal(err)
	}
	for id := range int32(3) {
		if err := s.register(metadata.Broker{ID: id, CleanEpoch: -1}); err != nil {
			b.Fatal(err)
		}
	}
	for i := 0; b.Loop(); i++ {
		id := int32(i % 3)
		s.unregister(id)
		if err := s.register(metadata.Broker{ID: id,
			CleanEpoch: s.Image().Brokers[0].Epoch}); err != nil {
			b.Fatal(err)
		}
	}
}
