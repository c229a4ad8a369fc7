package sim

import (
	"context"
	"errors"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/remote"
)

// retryInterval is the time after which a broker repeats a report.
const retryInterval = time.Second

// runWithParent connects the broker to the parent process, registers the broker, and applies
// images. When the connection ends, the broker process ends as well, as in internal/broker.
func (l *liveBroker) runWithParent(self metadata.Broker) {
	conn, err := l.w.parent.connect(l)
	for ; err != nil; conn, err = l.w.parent.connect(l) {
		if sleep(l.ctx, time.Second) != nil {
			return
		}
	}
	client := remote.NewClient(conn)
	l.client.Store(client)
	l.w.spawn(l.reportToParent)
	err = client.Run(l.ctx, self, func(image *metadata.Image) {
		l.w.restoreSettings(image)
		l.apply(image)
	})
	if l.ctx.Err() == nil {
		l.w.tracef("broker %d has no connection to the parent process any more: %v", l.id, err)
		l.w.spawn(l.exit)
	}
}

// restoreSettings replaces the settings of the topics in an image, because the simulation's
// segments are smaller than a topic's settings allow.
func (w *world) restoreSettings(image *metadata.Image) {
	for _, t := range image.Topics {
		if known := w.meta.topicNamed(t.Name); known != nil {
			t.Settings = known.settings
		}
	}
}

// exit ends the process without a controlled shutdown, and closes its logs.
func (l *liveBroker) exit() {
	l.shut()
	if !l.dead.Swap(true) {
		l.w.stopped <- l
	}
}

// reportToParent sends the reports of served partitions, one after the other. It repeats a failed
// report.
func (l *liveBroker) reportToParent() {
	for {
		select {
		case <-l.ctx.Done():
			return
		case served := <-l.reports:
			for l.client.Load().ReportServing(l.ctx, l.id, served) != nil {
				if sleep(l.ctx, retryInterval) != nil {
					return
				}
				select {
				case served = <-l.reports:
				default:
				}
			}
		}
	}
}

// changeISRByParent sends ISR changes to the parent process. Some brokers are isolated while they
// do not know the outcome of a change.
func (l *liveBroker) changeISRByParent(ctx context.Context, changes []metadata.ISRChange,
	settled metadata.SettledISR) {
	unknown := false
	l.client.Load().ChangeISR(ctx, changes, func(i int, partitionEpoch int64, err error) {
		t := l.w.meta.topicByID(changes[i].Topic)
		unknown = unknown || err != nil && !errors.Is(err, metadata.ErrISRConflict)
		if state := l.w.parent.file.get(t).State; err == nil && state.Changes < partitionEpoch {
			l.w.fail("%s: the ISR of broker %d was confirmed as of partition epoch %d; the "+
				"metadata file has %d", t.name, l.id, partitionEpoch, state.Changes)
		}
		settled(i, partitionEpoch, err)
	})
	if unknown && !l.w.isHealed() && l.w.parent.intN(2) == 0 {
		l.isolate(2*l.w.profile.lagMax + 3*time.Second)
	}
}
