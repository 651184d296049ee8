#include "check.h"
#include "notation/notation.h"

using namespace shardprop;

namespace {

std::string normal(const std::string& text) {
  const std::string once = to_string(parse_notation(text));
  CHECK_EQ(to_string(parse_notation(once)), once);
  return once;
}

// "<position>: <message>"; empty for a text that is a rule.
std::string fault(const std::string& text) {
  try {
    (void)parse_notation(text);
  } catch (const NotationError& error) {
    CHECK(error.position.has_value());
    return std::to_string(error.position.value_or(0)) + ": " + error.what();
  }
  return "";
}

}  // namespace

TEST(a_rule_is_read_into_terms_and_factors) {
  const Pattern pattern = parse_notation("+m n, *m k, *k n -> m n");
  CHECK_EQ(pattern.operands.size(), 3u);
  CHECK_EQ(pattern.outputs.size(), 1u);
  CHECK(pattern.operands[0].mark == Mark::kAdditive);
  CHECK(pattern.operands[1].mark == Mark::kLinear);
  CHECK_EQ(pattern.factors.size(), 3u);
  CHECK_EQ(pattern.factors[0].name, "m");
  CHECK_EQ(pattern.factors[2].name, "k");
  CHECK(pattern.factors[2].on_left && !pattern.factors[2].on_right);
  CHECK(!pattern.needs_outputs);
}

TEST(places_marks_and_asks_hold_for_the_factor_wherever_they_are_written) {
  const Pattern pattern = parse_notation("... k@dim, k -> ... k@dim!{even, min=2}");
  const Factor& k = pattern.factors[1];
  CHECK(k.whole && k.constraints.even);
  CHECK_EQ(k.constraints.min, 2);
  CHECK_EQ(pattern.arguments, (std::vector<std::string>{"dim"}));
  CHECK(pattern.operands[0].dims[1].place.kind == PlaceKind::kNamed);
  CHECK(pattern.operands[1].dims[0].place.kind == PlaceKind::kInOrder);
}

TEST(normalised_text_is_the_same_for_the_same_rule) {
  CHECK_EQ(normal("*m k,*k n->m n"), "*m k, *k n -> m n");
  CHECK_EQ(normal(" m{ multiple = 8 ,even}\n k ,k->m "), "m{even,multiple=8} k, k -> m");
}

TEST(every_construct_survives_being_written_again) {
  for (const char* text : {"... k@dim:max -> ...", "[+... k@dim!] -> ... k@dim", "k, k ->", "->",
                           "_, b s (h d) -> b s h d, _", "n#shape!, 1#shape 1@dim 1 -> n#shape",
                           "...{same} k@dim!, ... m@dim -> ... m@dim", "...:max ->",
                           "+..., +... -> ...; P(max), P(max) -> P(max); R, S(0) -> S(1)",
                           "a, a -> a, a; S(0), S(0) -> S(0), -", "a, , b -> a b", "[] -> [a!]"}) {
    CHECK_EQ(normal(text), text);
  }
}

TEST(a_row_with_a_bare_p_is_a_sum) {
  CHECK_EQ(normal("a -> a; P -> P"), "a -> a; P(sum) -> P(sum)");
}

TEST(what_no_operand_tells_needs_the_outputs) {
  CHECK(parse_notation("b s (h d) -> b s h d").needs_outputs);
  CHECK(parse_notation("... k@dim! -> [... k@dim]").needs_outputs);
  CHECK(parse_notation("a -> (a b)").needs_outputs);
  CHECK(!parse_notation("a b -> (a b)").needs_outputs);
  CHECK(!parse_notation("(a b), b -> a b").needs_outputs);
}

TEST(faults_are_named_where_they_are) {
  CHECK_EQ(fault("m k, k n"), "8: Expected a dim, \",\" or \"->\", got the end.");
  CHECK_EQ(fault("m -> M"), "5: Expected a dim, \",\" or \";\" (rows written out), got \"M\".");
  CHECK_EQ(fault("m m ->"), "2: Expected \"m\" once in an operand, got it twice.");
  CHECK_EQ(fault("(m m) ->"), "3: Expected \"m\" once in an operand, got it twice.");
  CHECK_EQ(fault("... m ... ->"), "6: Expected \"...\" once in an operand, got it twice.");
  CHECK_EQ(fault("2 ->"),
           "0: Expected a dim of size 1, the only number that a dim may be, got \"2\".");
  CHECK_EQ(fault("[m ->"), "3: Expected a dim or \"]\", got \"->\".");
  CHECK_EQ(fault("(m, ->"), "2: Expected the name of a factor or \")\", got \",\".");
  CHECK_EQ(fault("() ->"), "1: Expected the name of a factor, got \")\".");
  CHECK_EQ(fault("(m@dim n) ->"), "2: Expected no \"@\" or \"#\" within parentheses, got one.");
  CHECK_EQ(fault("m@ ->"), "2: Expected the name of an argument, got \" \".");
  CHECK_EQ(fault("m -> +m"), "5: Expected marks on operands only, got one on an output.");
  CHECK_EQ(fault("+*m -> m"), "1: Expected a dim, \",\" or \"->\", got \"*\".");
  CHECK_EQ(fault("m -> ..."), "5: Expected \"...\" in an operand as well, got it in outputs only.");
}

TEST(faults_of_marks_and_asks_are_named_where_they_are) {
  CHECK_EQ(fault("m:most ->"),
           "2: Expected a reduce op (sum, avg, product, min, max, band, bor, bxor), got \"most\".");
  CHECK_EQ(fault("m:max k, m:min ->"), "11: Expected one reduce op for \"m\", got min after max.");
  CHECK_EQ(fault("m!:max ->"),
           "3: Expected no reduce op for \"m\", which stays whole (\"!\"), got one.");
  CHECK_EQ(fault("m:max -> m"),
           "2: Expected a reduce op only for a factor that an operand has and an output has not, "
           "got one for \"m\".");
  CHECK_EQ(fault("m{odd} ->"),
           "2: Expected \"even\", \"same\", \"min=\" or \"multiple=\", got \"odd\".");
  CHECK_EQ(fault("m{min=0} ->"), "6: Expected a number of 1 or more, got 0.");
  CHECK_EQ(fault("m{min 2} ->"), "6: Expected \"=\" and a number, got \"2\".");
  CHECK_EQ(fault("m{min=2}, m{min=3} ->"), "12: Expected one \"min\" for a factor, got 3 after 2.");
  CHECK_EQ(fault("m{multiple=9999999999} ->"),
           "11: Expected a number of at most 9 digits, got 10 digits.");
}

TEST(what_belongs_to_a_name_stands_right_after_it) {
  for (const char* mark : {"!", ":max", "@dim", "#dim", "{even}"}) {
    const std::string shown = std::string("\"") + mark[0] + '"';
    const std::string apart =
        ": Expected " + shown + " right after the name that it belongs to, got it apart.";
    CHECK_EQ(fault(std::string("m ") + mark + " k ->"), "2" + apart);
    CHECK_EQ(fault(std::string("m, ") + mark + " k ->"), "3" + apart);
    CHECK_EQ(fault(std::string("... ") + mark + " ->"), "4" + apart);
  }
  CHECK_EQ(fault("m k: max -> m"),
           "4: Expected a reduce op (sum, avg, product, min, max, band, bor, bxor), got \" \".");
}

TEST(the_text_tells_ranks_unless_a_name_may_be_of_several_dims) {
  const auto ranks = [](const char* text) {
    const Pattern pattern = parse_notation(text);
    std::string all;
    for (const Term& term : pattern.operands) {
      const auto rank = rank_of(pattern, term);
      all += rank ? std::to_string(*rank) : "?";
    }
    return all;
  };
  CHECK_EQ(ranks("+m k, (h d) 1, , [a b c] -> m"), "2203");
  CHECK_EQ(ranks("... k, k@dim m, n#shape, 1@dim, _ -> m"), "?????");
}

TEST(faults_of_rows_are_named_where_they_are) {
  CHECK_EQ(fault("m -> m; R, R -> R"), "8: Expected 1 placement, one per operand, got 2.");
  CHECK_EQ(fault("m -> m; -> R"), "8: Expected 1 placement, one per operand, got 0.");
  CHECK_EQ(fault("m -> m; - -> R"), "8: Expected R, S(dim) or P(op), got \"-\".");
  CHECK_EQ(fault("m -> m; R -> Q"), "13: Expected R, S(dim), P(op) or -, got \"Q\".");
  CHECK_EQ(fault("m -> m; R"), "9: Expected \",\" or \"->\", got the end.");
  CHECK_EQ(fault("m -> m; S(99) -> R"), "10: Expected a tensor dim below 64, got 99.");
  CHECK_EQ(fault("m -> m; S(x) -> R"), "10: Expected a tensor dim, got \"x\".");
  CHECK_EQ(fault("m -> m; P(x) -> R"),
           "10: Expected a reduce op (sum, avg, product, min, max, band, bor, bxor), got \"x\".");
  CHECK_EQ(fault("m -> m; R -> R m"),
           "15: Expected \",\", \";\" or the end of the rule, got \"m\".");
}
