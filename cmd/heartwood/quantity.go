package main

import (
	"errors"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// quantityFlag is a number in the notation of Kubernetes quantities: 5Ki, 128Mi, 1.6G, 300. A rate
// can end with /s.
type quantityFlag struct {
	value *float64
	text  string
	kind  string // placeholder of the value in help texts: SIZE, COUNT or RATE
}

const (
	sizeKind  = "SIZE"
	countKind = "COUNT"
	rateKind  = "RATE"
)

// quantity returns a quantityFlag that stores its value in *target. The argument value is the
// default and can be empty.
func quantity(target *float64, kind, value string) *quantityFlag {
	flag := &quantityFlag{value: target, kind: kind}
	if value != "" {
		if err := flag.Set(value); err != nil {
			panic(err) // impossible: defaults are valid constants
		}
	}
	return flag
}

func (q *quantityFlag) Type() string   { return q.kind }
func (q *quantityFlag) String() string { return q.text }

func (q *quantityFlag) Set(text string) error {
	number := text
	if q.kind == rateKind {
		number = strings.TrimSuffix(number, "/s")
	}
	parsed, err := resource.ParseQuantity(number)
	if err != nil || parsed.Sign() < 0 {
		example := map[string]string{sizeKind: "a size, such as 5Ki, 128Mi or 1.25k",
			countKind: "a number, such as 200M or 1.6G",
			rateKind:  "a rate, such as 300/s, 20Mi/s or 0.5"}
		return errors.New("want " + example[q.kind])
	}
	*q.value, q.text = parsed.AsApproximateFloat64(), text
	return nil
}

// percentFlag is a percentage, such as 30 or 30%. It is stored as a fraction, such as 0.3.
type percentFlag struct{ share *float64 }

func (p percentFlag) Type() string { return "PERCENT" }

func (p percentFlag) String() string { return strconv.FormatFloat(*p.share*100, 'g', -1, 64) }

func (p percentFlag) Set(text string) error {
	percent, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	if err != nil || !(percent >= 0 && percent <= 100) { // false for NaN, so NaN is rejected, too
		return errors.New("want a percentage from 0 to 100")
	}
	*p.share = percent / 100
	return nil
}
