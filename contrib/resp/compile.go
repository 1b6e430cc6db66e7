package resp

import (
	"fmt"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// script is a compiled script. It may be run by several goroutines at the same time.
type script struct {
	digest string
	proto  *lua.FunctionProto
}

// chunkName is the name of each script in the texts of errors, as in Redis.
const chunkName = "user_script"

// Names of functions called by a script without knowing. No identifier of Lua has such a name.
const (
	concatName = "\x00concat"
	indexName  = "\x00index"
	spreadName = "\x00spread"
)

// compile parses a script, and bounds its operators: see [bounder].
func compile(digest, text string) (s *script, err error) {
	if len(text) > MaxScript {
		return nil, fmt.Errorf("the script has %d bytes, more than %d", len(text), MaxScript)
	}
	defer func() {
		// The parser of gopher-lua isn't made for hostile input; its panics leave nothing behind.
		if p := recover(); p != nil {
			s, err = nil, fmt.Errorf("the script can't be parsed: %v", p)
		}
	}()
	chunk, err := parse.Parse(strings.NewReader(text), chunkName)
	if err != nil {
		return nil, err
	}
	var b bounder
	b.block(chunk)
	proto, err := lua.Compile(chunk, chunkName)
	if err != nil {
		return nil, err
	}
	return &script{digest: digest, proto: proto}, nil
}

// bounder rewrites the syntax tree of a script. The instructions of a script are counted as they
// run, and so most memory is bounded, too; but three operators take more in an instruction: "a ..
// b" doubles a string, t[i] = x fills the array of t up to i, and "..." copies all arguments. So
// these operators call functions, for checks and charges: "a .. b" becomes concat(a, b), t[i] = x
// becomes t[index(i)] = x, and "..." becomes spread(...).
type bounder struct{}

func (b *bounder) block(stmts []ast.Stmt) {
	for _, s := range stmts {
		b.stmt(s)
	}
}

func (b *bounder) stmt(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.AssignStmt:
		for i, target := range s.Lhs {
			s.Lhs[i] = b.target(target)
		}
		b.exprs(s.Rhs)
	case *ast.LocalAssignStmt:
		b.exprs(s.Exprs)
	case *ast.FuncCallStmt:
		s.Expr = b.expr(s.Expr)
	case *ast.DoBlockStmt:
		b.block(s.Stmts)
	case *ast.WhileStmt:
		s.Condition = b.expr(s.Condition)
		b.block(s.Stmts)
	case *ast.RepeatStmt:
		s.Condition = b.expr(s.Condition)
		b.block(s.Stmts)
	case *ast.IfStmt:
		s.Condition = b.expr(s.Condition)
		b.block(s.Then)
		b.block(s.Else)
	case *ast.NumberForStmt:
		s.Init, s.Limit, s.Step = b.expr(s.Init), b.expr(s.Limit), b.expr(s.Step)
		b.block(s.Stmts)
	case *ast.GenericForStmt:
		b.exprs(s.Exprs)
		b.block(s.Stmts)
	case *ast.FuncDefStmt: // its name is made of identifiers
		b.block(s.Func.Stmts)
	case *ast.ReturnStmt:
		b.exprs(s.Exprs)
	case *ast.BreakStmt, *ast.LabelStmt, *ast.GotoStmt:
	default:
		panic(fmt.Sprintf("unknown statement %T", s))
	}
}

func (b *bounder) exprs(list []ast.Expr) {
	for i, e := range list {
		list[i] = b.expr(e)
	}
}

// target rewrites the left side of an assignment.
func (b *bounder) target(e ast.Expr) ast.Expr {
	if field, is := e.(*ast.AttrGetExpr); is {
		field.Object = b.expr(field.Object)
		field.Key = b.index(field.Key)
		return field
	}
	return b.expr(e)
}

// index rewrites the place of a value in a table.
func (b *bounder) index(key ast.Expr) ast.Expr {
	switch k := key.(type) {
	case nil:
		return nil
	case *ast.StringExpr:
		return k
	case *ast.NumberExpr:
		if n, err := strconv.Atoi(k.Value); err == nil && n <= valuesPerInstruction {
			return k
		}
	}
	return callOf(indexName, key, b.expr(key))
}

func (b *bounder) expr(e ast.Expr) ast.Expr {
	switch e := e.(type) {
	case *ast.StringConcatOpExpr:
		var parts []ast.Expr
		var rest ast.Expr = e
		for {
			pair, is := rest.(*ast.StringConcatOpExpr)
			if !is {
				break
			}
			parts = append(parts, b.expr(pair.Lhs))
			rest = pair.Rhs
		}
		return callOf(concatName, e, append(parts, b.single(b.expr(rest)))...)
	case *ast.AttrGetExpr:
		e.Object, e.Key = b.expr(e.Object), b.expr(e.Key)
	case *ast.TableExpr:
		for _, f := range e.Fields {
			f.Key, f.Value = b.index(f.Key), b.expr(f.Value)
		}
	case *ast.FuncCallExpr:
		if e.Func != nil {
			e.Func = b.expr(e.Func)
		}
		if e.Receiver != nil {
			e.Receiver = b.expr(e.Receiver)
		}
		b.exprs(e.Args)
	case *ast.LogicalOpExpr:
		e.Lhs, e.Rhs = b.expr(e.Lhs), b.expr(e.Rhs)
	case *ast.RelationalOpExpr:
		e.Lhs, e.Rhs = b.expr(e.Lhs), b.expr(e.Rhs)
	case *ast.ArithmeticOpExpr:
		e.Lhs, e.Rhs = b.expr(e.Lhs), b.expr(e.Rhs)
	case *ast.UnaryMinusOpExpr:
		e.Expr = b.expr(e.Expr)
	case *ast.UnaryNotOpExpr:
		e.Expr = b.expr(e.Expr)
	case *ast.UnaryLenOpExpr:
		e.Expr = b.expr(e.Expr)
	case *ast.FunctionExpr:
		b.block(e.Stmts)
	case *ast.Comma3Expr:
		if !e.AdjustRet {
			all := callOf(spreadName, e, e).(*ast.FuncCallExpr)
			all.AdjustRet = false
			return all
		}
	case nil, *ast.TrueExpr, *ast.FalseExpr, *ast.NilExpr, *ast.NumberExpr, *ast.StringExpr, *ast.IdentExpr:
	default:
		panic(fmt.Sprintf("unknown expression %T", e))
	}
	return e
}

// single makes the last argument of a call a single value, as an operand is: f() may return
// several.
func (b *bounder) single(e ast.Expr) ast.Expr {
	switch e := e.(type) {
	case *ast.FuncCallExpr:
		e.AdjustRet = true
	case *ast.Comma3Expr:
		e.AdjustRet = true
	}
	return e
}

// callOf returns a call of a function unknown to the script. at has the line.
func callOf(name string, at ast.PositionHolder, args ...ast.Expr) ast.Expr {
	f := &ast.IdentExpr{Value: name}
	call := &ast.FuncCallExpr{Func: f, Args: args, AdjustRet: true}
	for _, node := range []ast.PositionHolder{f, call} {
		node.SetLine(at.Line())
		node.SetLastLine(at.LastLine())
	}
	return call
}
