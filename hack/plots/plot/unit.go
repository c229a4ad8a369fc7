package plot

import "math"

// Unit is the unit of a dashboard's panel, with Grafana's name, such as "bytes".
type Unit string

// Format returns a value in the unit, in a readable form.
func (u Unit) Format(value float64) string {
	switch u {
	case "percentunit":
		return number(100*value) + " %"
	case "bytes":
		return prefixed(value, 1024, []string{" B", " KiB", " MiB", " GiB", " TiB"})
	case "Bps":
		return prefixed(value, 1000, []string{" B/s", " kB/s", " MB/s", " GB/s"})
	case "s":
		return seconds(value)
	case "cps", "ops", "reqps":
		return number(value) + "/s"
	default:
		return number(value)
	}
}

// prefixed divides a value by base as often as possible, and adds the suffix for the number of
// divisions.
func prefixed(value, base float64, suffixes []string) string {
	i := 0
	for ; i < len(suffixes)-1 && math.Abs(value) >= base; i++ {
		value /= base
	}
	return number(value) + suffixes[i]
}

// seconds returns a duration in the largest unit in which its value is at least 1.
func seconds(value float64) string {
	for _, unit := range []struct {
		seconds float64
		name    string
	}{{86400, " d"}, {3600, " h"}, {60, " min"}, {1, " s"}, {1e-3, " ms"}, {1e-6, " µs"}} {
		if math.Abs(value) >= unit.seconds {
			return number(value/unit.seconds) + unit.name
		}
	}
	return number(value) + " s"
}
