package cleaner

import (
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/cleaner/passlog"
	"heartwood.dev/heartwood/internal/logstore/compaction"
)

// keyOf returns a log's key in the history.
func keyOf(log *compaction.Compaction) passlog.Key {
	return passlog.Key{TopicID: log.TopicID().String(), Partition: log.ID().Index}
}

// HistoryKeys returns the keys of a store's logs, for passlog.Options.Logs. It returns nil if the
// store could not open some logs, because the keys of these logs are not known.
func HistoryKeys(store *logstore.Store) map[passlog.Key]bool {
	if len(store.Offline()) > 0 {
		return nil
	}
	keys := map[passlog.Key]bool{}
	for _, log := range store.Logs() {
		keys[keyOf(log.Compaction())] = true
	}
	return keys
}

// record adds a beginning pass to the history, and extends the options of the pass: each step is
// added to the history, too.
func (c *Cleaner) record(state *logState, log *compaction.Compaction,
	opts *compaction.PassOptions) *passlog.Running {
	c.mu.Lock()
	trigger, began := state.trigger, state.began
	c.mu.Unlock()
	recorded := c.history.Begin(log.ID().Topic, keyOf(log), trigger, began)
	c.mu.Lock()
	state.passID = recorded.ID()
	c.mu.Unlock()
	opts.Stage = func(step clean.Step) {
		c.choose(state, &step)
		recorded.Step(step, time.Now())
	}
	return recorded
}

// choose updates the chosen segments of a pass after a step.
func (c *Cleaner) choose(state *logState, step *clean.Step) {
	switch step.Kind {
	case clean.StepAnnounce:
		chosen := map[int64]bool{}
		for _, s := range step.Segments {
			if s.Chosen {
				chosen[s.Base] = s.Forced
			}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		state.chosen = chosen
	case clean.StepReplace:
		c.mu.Lock()
		defer c.mu.Unlock()
		for base := range state.chosen {
			if step.From <= base && base < step.To {
				delete(state.chosen, base)
			}
		}
	}
}

// Passes returns the passes in the history that a filter selects, and whether there are more. The
// reports of running passes contain their sums so far.
func (c *Cleaner) Passes(filter passlog.Filter) (passes []report.PartitionPass, more bool) {
	passes, more = c.history.List(filter)
	for i := range passes {
		if passes[i].Ended == nil {
			passes[i].Pass = c.sumsOf(&passes[i])
		}
	}
	return passes, more
}

// sumsOf returns the report of a pass. If the pass is still running, the report contains its sums
// so far.
func (c *Cleaner) sumsOf(pass *report.PartitionPass) report.Pass {
	c.mu.Lock()
	defer c.mu.Unlock()
	state := c.mu.logs[logstore.PartitionID{Topic: pass.Topic, Index: pass.Partition}]
	if state != nil && state.passID == pass.ID {
		if running := state.runningPass(time.Now()); running != nil {
			return *running
		}
	}
	return pass.Pass
}
