//go:build hunt

package pagetest

import (
	"cmp"
	"image"
	"image/color"
	"image/draw"
	"maps"
	"slices"
)

// reduce returns a picture with 256 colours, the most frequent colours. A page has few colours
// beside the shades at the edges of its letters, so the difference is hard to see, and the file is
// a fraction as long.
func reduce(from image.Image) image.Image {
	counts := map[color.RGBA]int{}
	b := from.Bounds()
	full := image.NewRGBA(b)
	draw.Draw(full, b, from, b.Min, draw.Src)
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			counts[full.RGBAAt(x, y)]++
		}
	}
	colors := slices.SortedFunc(maps.Keys(counts), func(p, q color.RGBA) int {
		return cmp.Or(
			cmp.Compare(counts[q], counts[p]),
			cmp.Compare(p.R, q.R),
			cmp.Compare(p.G, q.G),
			cmp.Compare(p.B, q.B),
		)
	})
	var palette color.Palette
	for _, c := range colors[:min(len(colors), 256)] {
		palette = append(palette, c)
	}
	nearest := map[color.RGBA]uint8{}
	to := image.NewPaletted(b, palette)
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			c := full.RGBAAt(x, y)
			i, ok := nearest[c]
			if !ok {
				i = uint8(palette.Index(c))
				nearest[c] = i
			}
			to.SetColorIndex(x, y, i)
		}
	}
	return to
}
