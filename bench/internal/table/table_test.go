package table

import (
	"math"
	"testing"
)

func TestTable(t *testing.T) {
	x := New("service", "per second", "more")
	x.Row("a|b", "1")
	want := "| service | per second | more |\n|---|--:|--:|\n| a\\|b | 1 | – |\n"
	if got := x.String(); got != want || x.Len() != 1 {
		t.Errorf("the table is\n%s, want\n%s", got, want)
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0.00", 0.12345: "0.123", 1.239: "1.24", 12.34: "12.3", 123.4: "123", 1234: "1,234", 1234567: "1,234,567", -1234: "-1,234", math.Inf(1): Empty, 999.6: "1,000",
	} {
		if got := Number(v); got != want {
			t.Errorf("%v is written %s, want %s", v, got, want)
		}
	}
	if got := Number(math.NaN()); got != Empty {
		t.Errorf("what wasn't measured is written %s", got)
	}
}

func TestSpreadAndRatio(t *testing.T) {
	if got := Spread([]float64{3, 1, 2}); got != "2.00 (1.00–3.00)" {
		t.Errorf("the spread of 3, 1, 2 is %s", got)
	}
	if got := Spread(nil) + Spread([]float64{7}); got != Empty+"7.00" {
		t.Errorf("the spreads of none and of one are %s", got)
	}
	if got := Ratio(3, 2) + Ratio(1, 0); got != "1.50 ×"+Empty {
		t.Errorf("the ratios are %s", got)
	}
}
