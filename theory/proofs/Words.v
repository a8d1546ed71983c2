(* Products of residual Jacobians expanded into words (Theorems 4.5 and 4.6, parts on structure).

   A chain is a list of sublayers, earliest first. A word is a list of letters, earliest first; the
   words of a chain are listed formally (a letter says which factor stands at which place), and a
   word is read as a map only afterwards. Maps are additive maps of any abelian group, so that
   Jacobians of whole states, matrices and operators are all meant. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum.
From mathcomp Require Import ring.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* All lists of n choices. *)
Fixpoint choices n : seq (seq bool) :=
  if n is m.+1 then map (cons false) (choices m) ++ map (cons true) (choices m) else [:: [::]].

Lemma size_choices n : size (choices n) = (2 ^ n)%N.
Proof. by elim: n => //= n IH; rewrite size_cat !size_map IH expnS mul2n addnn. Qed.

Lemma cons_inj (T : Type) (c : T) : injective (cons c). Proof. by move=> x y []. Qed.

Lemma mem_choices n b : (b \in choices n) = (size b == n).
Proof.
elim: n b => [|n IH] b; first by rewrite inE; case: b.
rewrite /= mem_cat; case: b => [|c b] /=; first by apply/norP; split; apply/mapP => -[].
rewrite eqSS -IH; apply/orP/idP => [[] /mapP[x xn [_ ->]] //|bn].
by case: c; [right|left]; rewrite (mem_map (@cons_inj _ _)).
Qed.

Lemma uniq_choices n : uniq (choices n).
Proof.
elim: n => //= n IH; rewrite cat_uniq !map_inj_uniq ?IH /= ?andbT; try exact: cons_inj.
by apply/hasPn => _ /mapP[x _ ->]; apply/mapP => -[].
Qed.

Lemma all_false_choice n b : b \in choices n -> (count id b == 0%N) = (b == nseq n false).
Proof.
by rewrite mem_choices => /eqP <-; elim: b => [|[] b IH] //=.
Qed.

Section Pre_LN.
Variable V : zmodType.
Implicit Types (J : seq {additive V -> V}) (x : V).

(* prod_k (I + J_k), earliest factor first, later ones on the left. *)
Definition residual_chain J x : V := foldl (fun y (j : {additive V -> V}) => y + j y) x J.

(* The map of one word: the chosen factors in order, identities left out. *)
Definition read_word J b x : V :=
  foldl (fun y (cj : bool * {additive V -> V}) => if cj.1 then cj.2 y else y) x (zip b J).

Lemma residual_chainD J x y : residual_chain J (x + y) = residual_chain J x + residual_chain J y.
Proof.
by elim: J x y => //= j J IH x y; rewrite raddfD /= addrACA IH.
Qed.

(* The product is the sum of all 2^n words. *)
Theorem residual_expansion J x :
  residual_chain J x = \sum_(b <- choices (size J)) read_word J b x.
Proof.
elim: J x => [|j J IH] x /=; first by rewrite big_seq1.
by rewrite residual_chainD !IH big_cat !big_map.
Qed.

Lemma read_no_factor J x : read_word J (nseq (size J) false) x = x.
Proof. by rewrite /read_word; elim: J x => //= j J IH x; apply: IH. Qed.

(* The word without factors is the identity. *)
Lemma no_factors J x : \sum_(b <- choices (size J) | count id b == 0%N) read_word J b x = x.
Proof.
elim: J x => [|j J IH] x; first by rewrite big_cons big_nil addr0.
by rewrite /= big_cat !big_map /= [X in _ + X]big_pred0 // addr0; apply: IH.
Qed.

(* The words with one factor, summed, give the sum of the factors. *)
Lemma single_factors J x :
  \sum_(b <- choices (size J) | count id b == 1%N) read_word J b x =
  \sum_(j <- J) (j : {additive V -> V}) x.
Proof.
elim: J x => [|j J IH] x; first by rewrite big_cons !big_nil.
rewrite /= big_cat !big_map big_cons addrC; congr (_ + _); first exact: IH.
exact: no_factors.
Qed.

(* The exact remainder: all words with at least two factors. *)
Definition remainder2 J x : V :=
  \sum_(b <- choices (size J) | (2 <= count id b)%N) read_word J b x.

Theorem residual_identity_linear_rest J x :
  residual_chain J x = x + \sum_(j <- J) (j : {additive V -> V}) x + remainder2 J x.
Proof.
rewrite residual_expansion (bigID (fun b => (2 <= count id b)%N)) /= addrC; congr (_ + _).
rewrite (bigID (fun b => count id b == 0%N)) /=; congr (_ + _).
  by rewrite -[RHS](no_factors J); apply: eq_bigl => b; case: (count id b) => [|[|?]].
by rewrite -single_factors; apply: eq_bigl => b; case: (count id b) => [|[|?]].
Qed.

End Pre_LN.

(* Formally: the word of a choice is the list of the letters chosen. Exactly one of the 2^n words is
   empty: the bare identity, which carries no factor whatever the depth. *)
Definition pre_ln_word (b : seq bool) : seq nat := mask b (iota 0 (size b)).

Lemma pre_ln_word_empty b : (pre_ln_word b == [::]) = (count id b == 0%N).
Proof. by rewrite -size_eq0 size_mask ?size_iota. Qed.

Theorem one_bare_identity n :
  count (fun b => pre_ln_word b == [::]) (choices n) = 1%N.
Proof.
transitivity (count_mem (nseq n false) (choices n)).
  by apply: eq_in_count => b /all_false_choice; rewrite pre_ln_word_empty.
by rewrite count_uniq_mem ?uniq_choices // mem_choices size_nseq eqxx.
Qed.

Section Post_LN.
Variable V : zmodType.

(* One sublayer: the Jacobians of its LayerNorm and of its attention. *)
Notation sublayer := ({additive V -> V} * {additive V -> V})%type.
Implicit Types (C : seq sublayer) (x : V).

(* prod_k J_LN,k (I + J_MHA,k), earliest factor first. *)
Definition post_chain C x : V := foldl (fun y (c : sublayer) => c.1 (y + c.2 y)) x C.

Definition read_post_word C b x : V :=
  foldl (fun y (bc : bool * sublayer) => bc.2.1 (if bc.1 then bc.2.2 y else y)) x (zip b C).

Lemma post_chainD C x y : post_chain C (x + y) = post_chain C x + post_chain C y.
Proof. by elim: C x y => //= c C IH x y; rewrite (raddfD c.2) addrACA (raddfD c.1) IH. Qed.

Theorem post_expansion C x :
  post_chain C x = \sum_(b <- choices (size C)) read_post_word C b x.
Proof.
elim: C x => [|c C IH] x /=; first by rewrite big_seq1.
by rewrite raddfD post_chainD !IH big_cat !big_map.
Qed.

(* The LayerNorm-only term. *)
Definition ln_only C x : V := foldl (fun y (c : sublayer) => c.1 y) x C.

Lemma read_ln_only C x : read_post_word C (nseq (size C) false) x = ln_only C x.
Proof. by rewrite /read_post_word; elim: C x => //= c C IH x; apply: IH. Qed.

Lemma no_attention C x :
  \sum_(b <- choices (size C) | count id b == 0%N) read_post_word C b x = ln_only C x.
Proof.
elim: C x => [|c C IH] x; first by rewrite big_cons big_nil addr0.
by rewrite /= big_cat !big_map /= [X in _ + X]big_pred0 // addr0; apply: IH.
Qed.

Theorem post_ln_only_and_rest C x :
  post_chain C x = ln_only C x
    + \sum_(b <- choices (size C) | (0 < count id b)%N) read_post_word C b x.
Proof.
rewrite post_expansion (bigID (fun b => count id b == 0%N)) /= no_attention; congr (_ + _).
by apply: eq_bigl => b; rewrite lt0n.
Qed.

End Post_LN.

(* Formally: letters are LayerNorm Jacobians (left) and attention Jacobians (right), numbered. *)
Definition post_ln_word (b : seq bool) : seq (nat + nat) :=
  flatten [seq (if c.1 then [:: inr c.2; inl c.2] else [:: inl c.2]) | c <- zip b (iota 0 (size b))].

Definition is_ln (l : nat + nat) := if l is inl _ then true else false.

(* Every word carries every LayerNorm factor, once and in order. *)
Theorem every_ln_in_order b :
  [seq l <- post_ln_word b | is_ln l] = map inl (iota 0 (size b)).
Proof.
rewrite /post_ln_word; move: 0%N => k; elim: b k => //= -[] b IH k /=; by rewrite IH.
Qed.

(* So no word of a nonempty product is empty: there is no bare identity. *)
Theorem no_bare_identity b : (0 < size b)%N -> post_ln_word b != [::].
Proof.
move=> b0; apply: contraTneq b0 => b_empty; have := every_ln_in_order b.
by rewrite b_empty; case: b {b_empty}.
Qed.

(* Exactly one word has LayerNorm factors alone. *)
Theorem ln_only_word_unique n :
  count (fun b => all is_ln (post_ln_word b)) (choices n) = 1%N.
Proof.
transitivity (count_mem (nseq n false) (choices n)); last first.
  by rewrite count_uniq_mem ?uniq_choices // mem_choices size_nseq eqxx.
apply: eq_in_count => b /all_false_choice e /=; rewrite -e /post_ln_word {e}.
suff H k : all is_ln (flatten [seq (if c.1 then [:: inr c.2; inl c.2] else [:: inl c.2])
    | c <- zip b (iota k (size b))]) = (count id b == 0%N) by apply: H.
by elim: b k => [|[] b IH] k //=; rewrite IH.
Qed.

(* The alternating chain x_{k+1} = (1 + (-1)^k a) x_k. *)
Section Alternating.
Variable R : comRingType.

Definition alternating (a : R) n := \prod_(k < n) (1 + (-1) ^+ k * a).

Theorem alternating_even a m : alternating a m.*2 = (1 - a ^+ 2) ^+ m.
Proof.
elim: m => [|m IH]; first by rewrite /alternating big_ord0 expr0.
rewrite /alternating doubleS !big_ord_recr /= -/(alternating a m.*2) IH.
have e : (-1) ^+ m.*2 = 1 :> R by rewrite -signr_odd odd_double expr0.
by rewrite [RHS]exprS [(-1) ^+ _.+1]exprS e; ring.
Qed.

Theorem alternating_odd a m : alternating a m.*2.+1 = (1 - a ^+ 2) ^+ m * (1 + a).
Proof.
rewrite /alternating big_ord_recr /= -/(alternating a m.*2) alternating_even.
by rewrite -signr_odd odd_double expr0 mul1r.
Qed.

End Alternating.
