package v1alpha1

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// Percent is a percentage as a decimal number, such as 12.5. It is a number in JSON and YAML. It
// stores its digits as text, which avoids changes by binary floating point. It is a struct, because
// Kubernetes' converters for unstructured objects do not call UnmarshalJSON of a string type.
//
// +kubebuilder:validation:Type=number
type Percent struct {
	Text string `json:"-"`
}

// PercentOf returns the shortest decimal number whose nearest float64 is value.
func PercentOf(value float64) *Percent {
	return &Percent{strconv.FormatFloat(value, 'f', -1, 64)}
}

// Float returns the number, or an error if the text is not a number.
func (p Percent) Float() (float64, error) { return strconv.ParseFloat(p.Text, 64) }

// MarshalJSON implements json.Marshaler.
func (p Percent) MarshalJSON() ([]byte, error) { return json.Marshal(json.Number(p.Text)) }

// UnmarshalJSON implements json.Unmarshaler.
func (p *Percent) UnmarshalJSON(text []byte) error {
	var number json.Number
	if err := json.Unmarshal(text, &number); err != nil {
		return fmt.Errorf("percentage %s: %w", text, err)
	}
	p.Text = string(number)
	return nil
}
