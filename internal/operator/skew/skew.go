package skew

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	// RaiseAfter is how long all brokers must support a higher format level before the LogCluster gets
	// this level. During this time, the update can be reverted.
	RaiseAfter = 24 * time.Hour
	// MinorsMax is the maximum number of minor releases by which brokers may be behind the operator.
	MinorsMax = 2
	// first is the format level of a LogCluster that has none yet.
	first = 1
)

// Broker contains values from a broker's last registration.
type Broker struct {
	Version string // "" if the broker never registered
	// Level is the highest format level that the broker supports; 0 if the broker never registered.
	Level int32
}

// Input is the state of a LogCluster.
type Input struct {
	Now      time.Time
	Operator string    // version of the operator
	Brokers  []Broker  // by id
	Level    int32     // status.formatLevel; 0 if there is none
	RaiseAt  time.Time // status.formatLevelRaiseTime; zero if there is none
	Spec     int32     // spec.formatLevel; 0 if there is none
}

// Kind is the kind of a skew.
type Kind int

// These are the kinds of skew, from the mildest to the worst.
const (
	// None means that the versions are compatible.
	None Kind = iota
	// Behind means that brokers are too far behind the operator.
	Behind
	// Refused means that spec.formatLevel cannot take effect.
	Refused
	// Ahead means that brokers are newer than the operator.
	Ahead
	// Unsupported means that some brokers do not support the LogCluster's format level.
	Unsupported
)

// Holds reports whether the skew forbids restarts of other brokers.
func (k Kind) Holds() bool { return k == Ahead || k == Unsupported }

// Decision is a LogCluster's format level and its skew.
type Decision struct {
	Level   int32
	RaiseAt time.Time // time at which the level rises if nothing changes; zero: never
	Kind    Kind
	Brokers []int32 // affected brokers; only with Behind, Ahead and Unsupported
	Message string
}

// Decide returns the format level and the skew.
//
// If spec.formatLevel is set, the level rises at once to spec.formatLevel or to the highest level
// that all brokers support, whichever is lower. Otherwise it rises by one at a time, once all
// brokers have supported a higher level for RaiseAfter, and not sooner than RaiseAfter after its
// last rise. So if brokers are updated again in this time, they can still return to the version of
// the first update. The level never decreases.
func Decide(in Input) Decision {
	d := Decision{Level: max(in.Level, first)}
	supported := in.supported()
	switch {
	case in.Spec > 0:
		d.Level = max(d.Level, min(in.Spec, supported))
	case supported <= d.Level:
	case in.RaiseAt.IsZero():
		d.RaiseAt = in.Now.Add(RaiseAfter)
	case in.Now.Before(in.RaiseAt):
		d.RaiseAt = in.RaiseAt
	default:
		if d.Level++; d.Level < supported {
			d.RaiseAt = in.Now.Add(RaiseAfter)
		}
	}
	d.describe(&in, supported)
	return d
}

// supported returns the highest level that all brokers support; 0 if any broker has never
// registered.
func (in *Input) supported() int32 {
	if len(in.Brokers) == 0 {
		return 0
	}
	level := in.Brokers[0].Level
	for _, b := range in.Brokers {
		level = min(level, b.Level)
	}
	return level
}

// describe sets the worst kind of skew, with its brokers.
func (d *Decision) describe(in *Input, supported int32) {
	unsupported := in.which(func(b Broker) bool { return b.Level > 0 && b.Level < d.Level })
	ahead := in.which(func(b Broker) bool { return behind(b.Version, in.Operator) > 0 })
	tooOld := in.which(func(b Broker) bool { return behind(in.Operator, b.Version) > MinorsMax })
	switch {
	case len(unsupported) > 0:
		d.Kind, d.Brokers = Unsupported, unsupported
		d.Message = fmt.Sprintf("Brokers %v run a version that does not support format level %d of "+
			"the LogCluster, and serve nothing. Other brokers are not restarted. Set spec.image to "+
			"a version that supports it.", unsupported, d.Level)
	case len(ahead) > 0:
		d.Kind, d.Brokers = Ahead, ahead
		d.Message = fmt.Sprintf("Brokers %v run a later minor release than the operator, which is "+
			"%s. Other brokers are not restarted. Upgrade the operator first, or set spec.image to "+
			"its release.", ahead, in.Operator)
	case in.Spec > 0 && in.Spec < d.Level:
		d.Kind = Refused
		d.Message = fmt.Sprintf("spec.formatLevel is %d, but files may have formats of level %d: a "+
			"level cannot be lowered. Set spec.formatLevel to %d or remove it.", in.Spec, d.Level,
			d.Level)
	case in.Spec > d.Level && supported > 0:
		d.Kind = Refused
		d.Message = fmt.Sprintf("spec.formatLevel is %d, but not all brokers support more than level "+
			"%d. The level rises when all of them run a version that supports it.", in.Spec, supported)
	case len(tooOld) > 0:
		d.Kind, d.Brokers = Behind, tooOld
		d.Message = fmt.Sprintf("Brokers %v are more than %d minor releases behind the operator, "+
			"which is %s. Set spec.image to a later release.", tooOld, MinorsMax, in.Operator)
	default:
		d.Message = fmt.Sprintf("The format level is %d; the versions of brokers and operator work "+
			"together.", d.Level)
	}
}

// which returns the ids of the brokers that match.
func (in *Input) which(match func(Broker) bool) (ids []int32) {
	for id, b := range in.Brokers {
		if match(b) {
			ids = append(ids, int32(id))
		}
	}
	return ids
}

// behind returns the number of minor releases by which version b is behind version a. The result is
// negative if b is ahead, and exceeds MinorsMax if b has a lower major release. It is 0 if one of
// the versions is not a release, such as a development build.
func behind(a, b string) int {
	majorA, minorA, ok := release(a)
	majorB, minorB, known := release(b)
	switch {
	case !ok || !known:
		return 0
	case majorA > majorB:
		return MinorsMax + 1
	case majorA < majorB:
		return -MinorsMax - 1
	}
	return minorA - minorB
}

// release returns the major and minor number of a version such as v1.4.2.
func release(version string) (major, minor int, ok bool) {
	numbers, prefixed := strings.CutPrefix(version, "v")
	parts := strings.SplitN(numbers, ".", 3)
	if !prefixed || len(parts) != 3 {
		return 0, 0, false
	}
	major, err := strconv.Atoi(parts[0])
	if err != nil {
		return 0, 0, false
	}
	minor, err = strconv.Atoi(parts[1])
	return major, minor, err == nil
}
