package coordinator

import (
	"cmp"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/metadata"
)

// expireInterval is how often offsets are looked through for old ones, unless the cluster says
// otherwise (Kafka's offsets.retention.check.interval.ms).
const expireInterval = 10 * time.Minute

// groupConfig is how groups are bounded: as their cluster says, else as the broker was started.
func (r *Runtime) groupConfig(of metadata.Groups) group.Config {
	config := r.opts.Groups
	config.SessionMin = cmp.Or(of.SessionMin, config.SessionMin)
	config.SessionMax = cmp.Or(of.SessionMax, config.SessionMax)
	config.InitialDelay = cmp.Or(of.InitialDelay, config.InitialDelay)
	config.MembersMax = cmp.Or(of.MembersMax, config.MembersMax)
	config.MetadataBytesMax = cmp.Or(of.MetadataBytesMax, config.MetadataBytesMax)
	config.ConsumerSession = cmp.Or(of.ConsumerSession, config.ConsumerSession)
	config.ConsumerInterval = cmp.Or(of.ConsumerInterval, config.ConsumerInterval)
	config.Retention = cmp.Or(of.OffsetsRetention, config.Retention)
	return config
}

// Settings are what bounds groups now, with the defaults where nobody says anything.
func (r *Runtime) Settings() group.Config { return r.groupConfig(r.opts.Image().Groups).WithDefaults() }

// configure has the shard go by what a cluster says of groups, from now on.
func (s *shard) configure(of metadata.Groups) {
	if s.configured == of {
		return
	}
	s.configured = of
	s.state.Configure(s.runtime.groupConfig(of))
	s.expiry.Reset(cmp.Or(of.OffsetsCheckInterval, expireInterval))
}
