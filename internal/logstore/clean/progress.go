package clean

import (
	"time"
)

// indexed tells how much reading the sidecars costs, now that they are there; with more than one
// window they are read again.
func (p *pass) indexed(windows int) {
	p.progress.TotalBytes = p.stats.LogReadBytes
	for _, plan := range p.plans {
		size := plan.segment.SizeBytes()
		p.progress.TotalBytes += size
		if plan.keys != nil {
			p.progress.TotalBytes += min(size, plan.keys.SizeBytes()*int64(windows))
		}
	}
}

// announce tells what the groups cost and bring. TotalBytes only falls here: newPass had counted
// every segment as rewritten.
func (p *pass) announce(plans []*plan, groups [][]*plan) {
	p.progress.Measured = true
	for _, plan := range plans {
		p.progress.TotalBytes -= plan.segment.SizeBytes()
	}
	for _, g := range groups {
		for _, plan := range g {
			p.progress.TotalBytes += plan.readBytes
			p.progress.ReclaimableBytes += plan.deadBytes
			p.progress.Chosen.Segments++
			p.progress.Chosen.Records += plan.removed
			p.progress.Chosen.Tombstones += plan.tombstones
			p.progress.Chosen.Markers += plan.markers
		}
	}
	p.enter(Rewriting)
}

// enter reports that the pass is in another phase, at once and not only with the next bytes.
func (p *pass) enter(phase Phase) {
	p.progress.Phase = phase
	p.report(p.Env.Report)
}

// report tells the Job's owner how far the pass is.
func (p *pass) report(to func(PassProgress)) {
	now := p.progress
	now.MemoryBytes = p.memory.used
	now.DoneBytes = min(p.meter.done.Load(), now.TotalBytes)
	now.Stats = p.stats
	now.Stats.SidecarReadBytes = p.meter.sidecar.Load()
	to(now)
}

// spendBytes is how often Spend and Progress are called: not for each small batch.
const spendBytes = 64 << 10

// spend accounts n bytes of I/O. It ends the pass when its context has ended. The last bytes of a
// pass, fewer than spendBytes, are never paid for. It may be called by several slices at once: then
// only what is counted atomically changes.
func (p *pass) spend(n int) error {
	owed := p.meter.unpaid.Add(int64(n))
	if owed < spendBytes || !p.meter.unpaid.CompareAndSwap(owed, 0) {
		return p.ctx.Err()
	}
	p.report(p.Env.Report)
	if err := p.Env.Throttle(p.ctx, int(owed)); err != nil {
		return err
	}
	return p.ctx.Err()
}

// sidecarRead accounts n bytes that were read of a sidecar. It is called by the readers, on
// whatever goroutine reads.
func (p *pass) sidecarRead(n int) error {
	p.meter.sidecar.Add(int64(n))
	p.meter.done.Add(int64(n))
	return p.spend(n)
}

// logRead accounts n bytes that were read of a source. Progress goes by what is read alone: how
// much will be written nobody knows before.
func (p *pass) logRead(n int) error {
	p.stats.LogReadBytes += int64(n)
	p.meter.done.Add(int64(n))
	return p.spend(n)
}

// sidecarWritten accounts n bytes that were written of a sidecar, or read and written to sort it.
func (p *pass) sidecarWritten(n int) error {
	p.stats.SidecarWrittenBytes += int64(n)
	return p.spend(n)
}

// shortestWait is how soon at the earliest the log asks for a pass to look again for what was not
// lonely yet.
const shortestWait = time.Minute

// noteNext keeps the earliest time at which the log wants another pass.
func (p *pass) noteNext(at time.Time) {
	if p.stats.NextPass.IsZero() || at.Before(p.stats.NextPass) {
		p.stats.NextPass = at
	}
}
