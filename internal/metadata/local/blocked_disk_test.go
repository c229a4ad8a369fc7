package local

import (
	"context"
	"errors"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/vfs"
)

// TestRequestsEndWithTheirContext checks that client requests end with their context while the disk
// is blocked during a write of the metadata file. This includes requests that wait for the request
// that is being written. Once the disk works again, the changes must be made.
func TestRequestsEndWithTheirContext(t *testing.T) {
	fault := vfs.NewFault(memory(t))
	s := open(t, fault)
	if err := s.Sync(nil, 1, nil); err != nil {
		t.Fatal(err)
	}
	stop := run(t, s, 0)
	defer stop()
	create := func(ctx context.Context, name string, validate bool) error {
		_, err := s.CreateTopic(ctx, metadata.NewTopic{Name: name, Partitions: 1, Replicas: 1,
			Validate: validate})
		return err
	}
	for _, name := range []string{"a", "b"} {
		if err := create(t.Context(), name, false); err != nil {
			t.Fatal(err)
		}
	}
	until := make(chan struct{})
	fault.Inject(vfs.Rule{Op: vfs.OpSync, Until: until})
	for _, request := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"delete", func(ctx context.Context) error { return s.DeleteTopic(ctx, "a") }},
		{"create", func(ctx context.Context) error { return create(ctx, "c", false) }},
		{"validate", func(ctx context.Context) error { return create(ctx, "d", true) }},
		{"grow", func(ctx context.Context) error {
			return s.CreatePartitions(ctx, metadata.NewPartitions{Name: "b", Count: 3})
		}},
		{"reassign", func(ctx context.Context) error {
			return s.Reassign(ctx, []metadata.Move{{Topic: "b", Replicas: []int32{0}}})[0]
		}},
		{"change of the ISR", func(ctx context.Context) (err error) {
			s.ChangeISR(ctx, []metadata.ISRChange{{Topic: s.Image().Topic("b").ID}},
				func(_ int, _ int64, fault error) { err = fault })
			return err
		}},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if err := request.do(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want the error of the context", request.name, err)
		}
		cancel()
	}
	close(until)
	s.Close()
	image := s.Image()
	if image.Topic("a") != nil || image.Topic("c") == nil || image.Topic("d") != nil ||
		len(image.Topic("b").Partitions) != 3 {
		t.Errorf("topics after the disk works again: %v", image.Topics)
	}
}
