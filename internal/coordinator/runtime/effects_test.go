package runtime

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/state"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/vfs"
)

// released collects the effects that a runtime has released.
type released struct {
	results []string
	ctx     context.Context //nolint:containedctx // of the last effect
	shard   *testShard
}

func (r *released) release(ctx context.Context, s *testShard, result string) {
	r.results, r.ctx, r.shard = append(r.results, result), ctx, s
}

func (b *broker) putWithEffect(key, value string) error {
	s, err := b.Shard(key)
	if err != nil {
		return err
	}
	_, err = Call(b.t.Context(), s, func(time.Time, *register) (struct{}, output, error) {
		out := put(key, value)
		out.Answers = []answer{{To: state.Effect, Result: value}}
		return struct{}{}, out, nil
	})
	return err
}

// TestEffectsWaitForHighWatermark checks that an effect is released only once its record is below
// the high watermark, and never after the shard has stopped.
func TestEffectsWaitForHighWatermark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, vfs.NewMem(), metadata.ID{1})
		defer b.Stop()
		var got released
		b.opts.Release = got.release
		b.Lead(1, self, 2) // broker 2 does not run, so the high watermark does not advance
		b.shard()
		go func() { _ = b.putWithEffect("key", "a") }()
		time.Sleep(time.Minute)
		if len(got.results) > 0 {
			t.Fatalf("released %v above the high watermark", got.results)
		}
		b.Lead(2, self)
		b.shard()
		must(t, b.putWithEffect("key", "b"))
		must(t, b.putWithEffect("key", "c"))
		synctest.Wait()
		if want := []string{"b", "c"}; !slices.Equal(got.results, want) {
			t.Errorf("released %v, want %v", got.results, want)
		}
	})
}

// TestPostAfterReloadDoesNothing checks that a function posted for an effect runs only while the
// shard still has the machine that returned the effect.
func TestPostAfterReloadDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, vfs.NewMem(), metadata.ID{1})
		defer b.Stop()
		var got released
		b.opts.Release = got.release
		b.Lead(1, self)
		b.shard()
		must(t, b.putWithEffect("key", "a"))
		synctest.Wait()
		write := func(value string) func(time.Time, *register) output {
			return func(time.Time, *register) output { return put("key", value) }
		}
		Post(got.ctx, got.shard, write("posted"))
		b.wantValue("key", "posted")
		before := got
		_, err := Call(t.Context(), got.shard,
			func(time.Time, *register) (struct{}, output, error) {
				got.shard.inconsistent = true // makes the shard reload
				return struct{}{}, output{}, nil
			})
		must(t, err)
		b.AwaitLoaded(func() bool {
			_, err := b.get("key")
			return err == nil && before.ctx.Err() != nil
		})
		Post(before.ctx, before.shard, write("late"))
		b.wantValue("key", "posted")
	})
}
