package template

import "math"

// numberFunctions calculate exactly with integers of any size.
var numberFunctions = map[string]function{
	"add":     {1, -1, func(c *call) any { return c.fold(addition, c.args) }},
	"mul":     {1, -1, func(c *call) any { return c.fold(multiplication, c.args) }},
	"sub":     {2, 2, func(c *call) any { return c.fold(subtraction, c.args) }},
	"div":     {2, 2, func(c *call) any { return c.divide(division) }},
	"mod":     {2, 2, func(c *call) any { return c.divide(remainder) }},
	"add1":    {1, 1, func(c *call) any { return c.fold(addition, []any{c.args[0], int64(1)}) }},
	"max":     {1, -1, func(c *call) any { return c.extreme(1) }},
	"min":     {1, -1, func(c *call) any { return c.extreme(-1) }},
	"floor":   {1, 1, rounded(math.Floor)},
	"ceil":    {1, 1, rounded(math.Ceil)},
	"round":   {2, 2, roundTo},
	"int":     {1, 1, rounded(math.Trunc)},
	"int64":   {1, 1, rounded(math.Trunc)},
	"atoi":    {1, 1, rounded(math.Trunc)},
	"float64": {1, 1, toFloat},
}

// fold calculates with numbers from left to right.
func (c *call) fold(op operation, args []any) any {
	result := c.numberOf(args[0])
	for _, arg := range args[1:] {
		n := c.numberOf(arg)
		if !c.spend(callPrice + result.words()*n.words()/8) {
			return nil
		}
		var err error
		result, err = op.apply(result, n)
		c.ok(err)
	}
	return result.value()
}

func (c *call) divide(op operation) any {
	if n := c.number(1); c.err == nil && n.compare(number{}) == 0 {
		return c.failf("division by zero")
	}
	return c.fold(op, c.args)
}

// extreme is the largest number with the sign 1, the smallest with -1.
func (c *call) extreme(sign int) any {
	best := c.number(0)
	for i := 1; i < len(c.args); i++ {
		if n := c.number(i); c.err == nil && n.compare(best) == sign {
			best = n
		}
	}
	return best.value()
}

// rounded makes a function that gives an integer.
func rounded(how func(float64) float64) func(*call) any {
	return func(c *call) any {
		n := c.number(0)
		if !n.isFloat {
			return n.value()
		}
		i, ok := number{float: how(n.float), isFloat: true}.integer()
		if !ok {
			return c.failf("%v is out of range", n.value())
		}
		return i.value()
	}
}

// roundTo rounds to a number of decimals, halves away from zero.
func roundTo(c *call) any {
	n, decimals := c.number(0), c.int(1)
	if !n.isFloat || decimals > 300 {
		return n.value()
	}
	scale := math.Pow(10, float64(decimals))
	if result := math.Round(n.float*scale) / scale; !math.IsNaN(result) && !math.IsInf(result, 0) {
		return Float(result)
	}
	return n.value()
}

func toFloat(c *call) any {
	f := c.number(0).float64()
	if math.IsInf(f, 0) {
		return c.failf("the number is out of range")
	}
	return Float(f)
}
